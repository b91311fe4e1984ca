// One watcher's stream over a WatchLog.
//
// A watcher that resumes reads every change after its revision. One that begins at 0 first
// gets every present object as ADDED. It keeps no queue of its own: it reads the log at its
// own pace, and if the log forgets what it has not read, the stream ends with
// REVISION_COMPACTED and the client lists again.
//
// Runs on the loop.
#ifndef CONTROLLER_RPC_WATCH_STREAM_H_
#define CONTROLLER_RPC_WATCH_STREAM_H_

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "controller/rpc/errors.h"
#include "controller/rpc/loop_writer.h"
#include "controller/rpc/watch_log.h"
#include "controller/watch_metrics.h"
#include "proto/job.pb.h"

namespace paceline {

template <typename Event>
class WatchStream : public LoopWriter<Event> {
 public:
  using Set = std::set<WatchStream*>;
  // Whether a change is of interest.
  using Filter = std::function<bool(const Event&)>;

  // The stream is in `set` as long as it is open, and counted in `metrics`, if any. All pointers
  // outlive it.
  WatchStream(EventLoop* loop, std::unique_ptr<CallLimits::Stream> counted,
              const WatchLog<Event>* log, Set* set, Filter filter, WatchMetrics* metrics = nullptr)
      : LoopWriter<Event>(loop, std::move(counted)),
        log_(log),
        set_(set),
        filter_(std::move(filter)),
        metrics_(metrics) {}

  // Begins after `revision`; with 0, with `present` (each an ADDED).
  void Begin(int64_t revision, std::deque<Event> present) {
    set_->insert(this);
    if (metrics_ != nullptr) metrics_->open.Increment();
    revision_ = revision;
    if (revision == 0) {
      revision_ = log_->revision();
      present_ = std::move(present);
      Event bookmark;
      bookmark.set_type(v1::BOOKMARK);
      bookmark.set_revision(revision_);
      present_.push_back(std::move(bookmark));
    }
    Wake();
  }

  // The log has grown.
  void Wake() {
    if (!this->idle()) return;
    if (!present_.empty()) {
      Event event = std::move(present_.front());
      present_.pop_front();
      this->Send(std::move(event));
      return;
    }
    while (true) {
      if (!log_->Has(revision_)) {
        if (metrics_ != nullptr) metrics_->resyncs.Increment();
        this->Close(MakeError(grpc::StatusCode::OUT_OF_RANGE, "REVISION_COMPACTED",
                              "changes after this revision are no longer kept: list again"));
        return;
      }
      const Event* event = log_->After(revision_);
      if (event == nullptr) return;
      revision_ = event->revision();
      if (!filter_(*event)) continue;
      this->Send(*event);
      return;
    }
  }

 private:
  void Ready() override { Wake(); }
  void Gone() override {
    const bool was_open = set_->erase(this) > 0;
    if (metrics_ != nullptr && was_open) metrics_->open.Decrement();
  }

  const WatchLog<Event>* const log_;
  Set* const set_;
  const Filter filter_;
  WatchMetrics* const metrics_;
  int64_t revision_ = 0;
  std::deque<Event> present_;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_WATCH_STREAM_H_
