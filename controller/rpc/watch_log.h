// The recent changes of one kind of resource, so that a watcher can resume after a break.
//
// Revisions grow by one with each change and are never reused, over restarts too: the upper
// half of a revision counts the controller's starts. What is older than the capacity, or
// from before the start, is compacted: the watcher has to list again.
//
// Event: a message with a `revision` field. Thread-compatible.
#ifndef CONTROLLER_RPC_WATCH_LOG_H_
#define CONTROLLER_RPC_WATCH_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace paceline {

template <typename Event>
class WatchLog {
 public:
  WatchLog(int64_t starts, size_t capacity) : capacity_(capacity), revision_(starts << 32) {}

  // The revision of the latest change.
  int64_t revision() const { return revision_; }

  // Records a change as the next revision.
  void Append(Event event) {
    event.set_revision(++revision_);
    events_.push_back(std::move(event));
    if (events_.size() > capacity_) events_.pop_front();
  }

  // Whether every change after `revision` is still here.
  bool Has(int64_t revision) const {
    return revision <= revision_ && revision >= revision_ - static_cast<int64_t>(events_.size());
  }

  // The first change after `revision`, or nullptr if there is none yet. Valid until Append.
  // Requires: Has(revision).
  const Event* After(int64_t revision) const {
    if (revision == revision_) return nullptr;
    return &events_[events_.size() - (revision_ - revision)];
  }

 private:
  const size_t capacity_;
  int64_t revision_;
  std::deque<Event> events_;  // Consecutive revisions up to revision_.
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_WATCH_LOG_H_
