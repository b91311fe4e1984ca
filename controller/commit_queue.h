// Makes state durable without holding up the event loop.
//
// Add puts a batch and what depends on it in line. A thread commits the batches in that
// order; when one is durable, what depends on it runs on the loop. Work without a batch
// waits for the batches before it, so nothing is ever told that could still be lost.
//
// Batches that wait for the disk together become one transaction, up to kMaxTogether of them: when
// all workers come back at once, the disk is waited for some times and not once for each.
//
// When a commit fails, all in line and all that comes later gets the error, and nothing more is
// written: it would stand in the store without what came before it. Memory is then ahead of the
// store, and the process must end.
//
// Runs on the loop, except for its own thread.
#ifndef CONTROLLER_COMMIT_QUEUE_H_
#define CONTROLLER_COMMIT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "controller/store/state_store.h"

namespace paceline {

class CommitQueue {
 public:
  static constexpr size_t kMaxTogether = 64;

  // Runs on the loop: with OK when everything before is durable, else with the store's error.
  using Then = std::function<void(const absl::Status&)>;

  struct Observer {
    std::function<void(absl::Duration)> committed;  // On the loop, with the time that it took.
    std::function<void(absl::Status)> failed;       // On the loop, once, before the others hear.
  };

  // `loop` and `store` outlive the queue; the store is used by the queue's thread only.
  CommitQueue(EventLoop* loop, StateStore* store, Observer observer);

  // Waits for the batches in line. Requires: the loop has stopped for good.
  ~CommitQueue();

  // Runs `then` once `batch` and all before it are durable; at once if there is nothing to
  // wait for.
  void Add(WriteBatch batch, Then then);

  // The most that have been in line at a time since this was asked last.
  int64_t TakeMostInLine();

 private:
  struct Entry {
    WriteBatch batch;
    Then then;
  };

  void CommitAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // The first entries in line; waits for one. Empty: it is to end.
  std::vector<Entry> TakeEntries() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const std::vector<Entry>& entries, const absl::Status& status, absl::Duration took);

  EventLoop* const loop_;
  StateStore* const store_;
  const Observer observer_;

  // On the loop.
  int64_t in_line_ = 0;
  int64_t most_in_line_ = 0;
  absl::Status failure_;

  absl::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_COMMIT_QUEUE_H_
