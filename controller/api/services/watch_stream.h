// One watcher's stream over a WatchLog.
//
// A watcher that resumes reads every change after its revision. One that begins at 0 first gets
// every present object as ADDED, then a BOOKMARK. Objects come in the order of their ids, each in
// its state at that moment; between them come the changes of objects that were already sent. A
// change of an object that is still to come is left out, since the object will show its effect. So
// no object is ever shown in an older state than before, and of the list the stream keeps nothing
// but its position.
//
// A stream has no queue: it reads the log at its own pace, and if the log forgets what it has not
// read, it ends with REVISION_COMPACTED and the client lists again.
//
// Runs on the loop.
#ifndef CONTROLLER_API_SERVICES_WATCH_STREAM_H_
#define CONTROLLER_API_SERVICES_WATCH_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/api/services/loop_writer.h"
#include "controller/api/services/watch_log.h"
#include "controller/metrics/watch_metrics.h"
#include "controller/wire/encoded_message.h"
#include "controller/wire/errors.h"
#include "proto/job.pb.h"

namespace paceline {

template <typename Event>
class WatchStream : public LoopWriter<grpc::ByteBuffer> {
 public:
  using Set = std::set<WatchStream*>;
  // Whether the watcher wants a change.
  using Filter = std::function<bool(const WatchKey&)>;

  struct Present {
    std::string id;
    Event event;  // Only its object is set; the stream sets the rest.
  };
  // Returns the next present object that the watcher wants, by id after `id`.
  using Next = std::function<std::optional<Present>(const std::string& id)>;

  // The stream is in `set` while it is open, and counted in `metrics` unless that is null. All
  // pointers outlive it.
  WatchStream(EventLoop* loop, Sender* sender, std::unique_ptr<CallLimits::Stream> counted,
              const WatchLog<Event>* log, Set* set, Filter filter, WatchMetrics* metrics = nullptr,
              int most_on_their_way = 32)
      : LoopWriter(loop, sender, std::move(counted), most_on_their_way),
        log_(log),
        set_(set),
        filter_(std::move(filter)),
        metrics_(metrics) {}

  // Begins after `revision`; 0: begins with the present objects.
  void Begin(int64_t revision, Next next) {
    set_->insert(this);
    if (metrics_ != nullptr) metrics_->open.Increment();
    lists_ = revision == 0;
    revision_ = lists_ ? log_->revision() : revision;
    next_ = std::move(next);
    Wake();
  }

  // Called when the log has grown.
  void Wake() {
    while (has_room() && SendNext()) {
    }
  }

 private:
  // Sends the next wanted change, or part of the list. Returns false if there is none, or the
  // stream ends.
  bool SendNext() {
    while (true) {
      if (!log_->Has(revision_)) {
        if (metrics_ != nullptr) metrics_->resyncs.Increment();
        Close(MakeError(grpc::StatusCode::OUT_OF_RANGE, "REVISION_COMPACTED",
                        "changes after this revision are no longer kept: list again"));
        return false;
      }
      const auto* change = log_->After(revision_);
      if (change == nullptr) break;
      revision_ = change->revision;
      const bool comes_later = lists_ && listed_ < change->key.id;
      if (comes_later || !filter_(change->key)) continue;
      Send(change->encoded);
      return true;
    }
    if (lists_) {
      List();
      return true;
    }
    return false;
  }

  // Sends the next present object, or the BOOKMARK. Requires: all changes so far have been read.
  void List() {
    std::optional<Present> present = next_(listed_);
    Event event;
    if (present.has_value()) {
      listed_ = std::move(present->id);
      event = std::move(present->event);
      event.set_type(v1::ADDED);
    } else {
      lists_ = false;
      event.set_type(v1::BOOKMARK);
    }
    event.set_revision(revision_);
    Send(Encode(event));
  }

  void Ready() override { Wake(); }
  void Gone() override {
    const bool was_open = set_->erase(this) > 0;
    if (metrics_ != nullptr && was_open) metrics_->open.Decrement();
  }

  const WatchLog<Event>* const log_;
  Set* const set_;
  const Filter filter_;
  WatchMetrics* const metrics_;
  Next next_;
  int64_t revision_ = 0;  // Up to here the log has been read.
  bool lists_ = false;    // Sending the present objects.
  std::string listed_;    // Id of the last object sent.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_WATCH_STREAM_H_
