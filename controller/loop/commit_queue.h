// Makes state durable without holding up the event loop.
//
// Add puts what changes in line for a thread, which commits one transaction at a time, and what
// depends on it in a line of the loop's, where it runs when that is durable. Work that changes
// nothing waits for the changes before it, so nothing is ever told that could still be lost, but
// goes through no thread: however much of it comes, it is done when the last change is.
//
// All changes that wait for the disk together become the next transaction: when all workers come
// back at once, the disk is waited for some times and not once for each. A job's record is encoded
// when its transaction begins, as the job is then. That is as after all changes of the transaction,
// since one that has not been put in line does not exist yet. So a job of a thousand ranks that end
// one after the other is encoded as often as the disk can take it, and not a thousand times.
//
// When a commit fails, all in line and all that comes later gets the error, and nothing more is
// written: it would stand in the store without what came before it. Memory is then ahead of the
// store, and the process must end.
//
// Runs on the loop, except for its own thread.
#ifndef CONTROLLER_LOOP_COMMIT_QUEUE_H_
#define CONTROLLER_LOOP_COMMIT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/event_loop.h"
#include "controller/store/state_store.h"

namespace paceline {

class CommitQueue {
 public:
  // What changes: what is in `batch`, and the records of `jobs`.
  struct Change {
    WriteBatch batch;
    std::set<JobId> jobs;

    bool empty() const { return batch.empty() && jobs.empty(); }
  };

  // Runs on the loop: with OK when everything before is durable, else with the store's error.
  using Then = std::function<void(const absl::Status&)>;

  struct Callbacks {
    // On the loop: puts the job's record, as the job is now, in the batch; nothing if there is no
    // such job any more.
    std::function<void(const JobId&, WriteBatch&)> encode;
    std::function<void(absl::Duration)> committed;  // On the loop, with the time that it took.
    std::function<void(absl::Status)> failed;       // On the loop, once, before the others hear.
  };

  // `loop` and `store` outlive the queue; the store is used by the queue's thread only.
  CommitQueue(EventLoop* loop, StateStore* store, Callbacks callbacks);

  // Commits what is in line. Requires: the loop has stopped for good.
  ~CommitQueue();

  // Runs `then` once `change` and all before it are durable; at once if there is nothing to
  // wait for.
  void Add(Change change, Then then);

  // The most that have been in line at a time since this was asked last.
  int64_t TakeMostInLine();

 private:
  struct Waiting {
    int64_t transaction = 0;  // Runs when that is durable.
    Then then;
  };

  // The thread.
  void CommitAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next transaction; waits for it. Nothing: it is to end.
  std::optional<WriteBatch> TakeTransaction() ABSL_LOCKS_EXCLUDED(mutex_);

  bool HasWaiting() const { return !writes_.empty() || !jobs_.empty(); }
  // What waits, with the records of its jobs.
  WriteBatch TakeWaiting();
  // Hands what waits to the thread. Requires: the thread has nothing to do.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // The transaction that was begun last is durable or failed, and took so long.
  void Finish(const absl::Status& status, absl::Duration took);

  EventLoop* const loop_;
  StateStore* const store_;
  const Callbacks callbacks_;

  // On the loop.
  int64_t begun_ = 0;  // Transactions.
  int64_t finished_ = 0;
  // Of the next transaction, by key: what is put, nothing for what is deleted; and jobs.
  std::map<std::string, std::optional<std::string>> writes_;
  std::set<JobId> jobs_;
  std::deque<Waiting> line_;
  int64_t most_in_line_ = 0;
  absl::Status failure_;

  absl::Mutex mutex_;
  std::optional<WriteBatch> next_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  absl::Status last_;   // The thread's, until it has ended: of its last transaction.
  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_LOOP_COMMIT_QUEUE_H_
