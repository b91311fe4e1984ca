// Makes state durable without holding up the event loop.
//
// Add puts a batch and what depends on it in line. A thread commits the batches in that
// order; when one is durable, what depends on it runs on the loop. Work without a batch
// waits for the batches before it, so nothing is ever told that could still be lost.
//
// When a commit fails, the failure is reported once and nothing of what was in line runs:
// memory is then ahead of the store, and the process must end.
//
// Runs on the loop, except for its own thread.
#ifndef CONTROLLER_COMMIT_QUEUE_H_
#define CONTROLLER_COMMIT_QUEUE_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "controller/store/state_store.h"

namespace paceline {

class CommitQueue {
 public:
  struct Observer {
    std::function<void(absl::Duration)> committed;  // On the loop, with the time that it took.
    std::function<void(absl::Status)> failed;       // On the loop, once.
  };

  // `loop` and `store` outlive the queue; the store is used by the queue's thread only.
  CommitQueue(EventLoop* loop, StateStore* store, Observer observer);

  // Waits for the batches in line. Requires: the loop has stopped for good.
  ~CommitQueue();

  // Runs `then` on the loop once `batch` and all before it are durable; at once if there
  // is nothing to wait for.
  void Add(WriteBatch batch, std::function<void()> then);

 private:
  struct Entry {
    WriteBatch batch;
    std::function<void()> then;
  };

  void CommitAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(std::function<void()> then, const absl::Status& status, absl::Duration took);

  EventLoop* const loop_;
  StateStore* const store_;
  const Observer observer_;

  // On the loop.
  int64_t in_line_ = 0;
  bool failed_ = false;

  absl::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_COMMIT_QUEUE_H_
