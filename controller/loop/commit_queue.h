// Makes state durable without holding up the event loop.
//
// Add queues a change for a thread, which commits one transaction at a time, and queues what
// depends on the change for the loop, which runs it once the change is durable. Work that changes
// nothing waits for the changes before it, so that nothing is ever announced that could still be
// lost. It goes through no thread: however much there is, it runs as soon as the last change is
// durable.
//
// All changes that wait for the disk together become the next transaction: when all workers
// reconnect at once, the disk is waited for a few times and not once for each. A job's record is
// encoded when its transaction begins, as the job is then, which includes all changes of the
// transaction. So a job of a thousand ranks that end one after the other is encoded as often as the
// disk can take it, and not a thousand times.
//
// When a commit fails, all that is queued and all that comes later gets the error, and nothing more
// is written: it would be in the store without what came before it. Memory is then ahead of the
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
  // A change: the writes in `batch`, and the records of `jobs`.
  struct Change {
    WriteBatch batch;
    std::set<JobId> jobs;

    bool empty() const { return batch.empty() && jobs.empty(); }
  };

  // Runs on the loop: with OK once everything before it is durable, else with the store's error.
  using Then = std::function<void(const absl::Status&)>;

  struct Callbacks {
    // On the loop: adds the present record of the job to the batch; nothing if the job is gone.
    std::function<void(const JobId&, WriteBatch&)> encode;
    std::function<void(absl::Duration)> committed;  // On the loop, with the commit's duration.
    std::function<void(absl::Status)> failed;       // On the loop, once, before any Then gets it.
  };

  // `loop` and `store` outlive the queue; the store is used by the queue's thread only.
  CommitQueue(EventLoop* loop, StateStore* store, Callbacks callbacks);

  // Commits what is queued. Requires: the loop has stopped for good.
  ~CommitQueue();

  // Runs `then` once `change` and all before it are durable; at once if there is nothing to wait
  // for.
  void Add(Change change, Then then);

  // Returns the greatest length of the queue since the last call.
  int64_t TakeMostInLine();

 private:
  struct Waiting {
    int64_t transaction = 0;  // Runs when this one is durable.
    Then then;
  };

  // Runs on the thread.
  void CommitAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next transaction; nothing: the thread is to end.
  std::optional<WriteBatch> TakeTransaction() ABSL_LOCKS_EXCLUDED(mutex_);

  bool HasWaiting() const { return !writes_.empty() || !jobs_.empty(); }
  // Takes out what waits, with the records of its jobs.
  WriteBatch TakeWaiting();
  // Hands what waits to the thread. Requires: the thread is idle.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  // The transaction begun last is durable or has failed, after `took`.
  void Finish(const absl::Status& status, absl::Duration took);

  EventLoop* const loop_;
  StateStore* const store_;
  const Callbacks callbacks_;

  // On the loop.
  int64_t begun_ = 0;  // Number of transactions.
  int64_t finished_ = 0;
  // For the next transaction: values to put, by key (nothing: delete the key), and jobs.
  std::map<std::string, std::optional<std::string>> writes_;
  std::set<JobId> jobs_;
  std::deque<Waiting> line_;
  int64_t most_in_line_ = 0;
  absl::Status failure_;

  absl::Mutex mutex_;
  std::optional<WriteBatch> next_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  absl::Status last_;   // Of the last transaction; the thread owns it until it has ended.
  std::thread thread_;  // Last: uses all the others.
};

}  // namespace paceline

#endif  // CONTROLLER_LOOP_COMMIT_QUEUE_H_
