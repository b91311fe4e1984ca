// A thread that executes tasks one after the other. Thread-safe.
#ifndef WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_
#define WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

class TaskThread {
 public:
  TaskThread();
  // Executes the queued tasks first.
  ~TaskThread();

  // Appends a task, which must not throw.
  void Enqueue(std::function<void()> task);

  // Waits until no task is queued or running. False: that was not so within `patience`.
  bool Drain(absl::Duration patience = absl::InfiniteDuration());

 private:
  void Run();

  absl::Mutex mu_;
  std::deque<std::function<void()>> line_ ABSL_GUARDED_BY(mu_);
  bool working_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Last member, since it uses the others.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_
