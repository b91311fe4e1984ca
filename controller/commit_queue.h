// Makes state durable without holding up the event loop.
//
// Add puts a batch in line for a thread, which commits the batches in that order, and what depends
// on it in a line of the loop's, where it runs when the batch is durable. Work without a batch
// waits for the batches before it, so nothing is ever told that could still be lost, but goes
// through no thread: however much of it comes, it is done when the last batch is.
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
  // Runs when `batches` batches are durable: as many as had been added when it came.
  struct Waiting {
    int64_t batches = 0;
    Then then;
  };

  void CommitAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // The first batches in line; waits for one. Empty: it is to end.
  std::vector<WriteBatch> TakeBatches() ABSL_LOCKS_EXCLUDED(mutex_);
  // `batches` more were committed together, and took so long.
  void Finish(int64_t batches, const absl::Status& status, absl::Duration took);

  EventLoop* const loop_;
  StateStore* const store_;
  const Observer observer_;

  // On the loop.
  int64_t added_ = 0;     // Batches.
  int64_t finished_ = 0;  // Batches: durable, or failed.
  std::deque<Waiting> line_;
  int64_t most_in_line_ = 0;
  absl::Status failure_;

  absl::Mutex mutex_;
  std::deque<WriteBatch> batches_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_COMMIT_QUEUE_H_
