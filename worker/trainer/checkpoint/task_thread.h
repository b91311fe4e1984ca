// A thread that does one task after the other. Thread-safe.
#ifndef WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_
#define WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

class TaskThread {
 public:
  TaskThread();
  // Does what is in line first.
  ~TaskThread();

  // Behind all others. The task does not throw.
  void Enqueue(std::function<void()> task);

  // Returns when nothing is in line or being done.
  void Drain();

 private:
  void Run();

  absl::Mutex mu_;
  std::deque<std::function<void()>> line_ ABSL_GUARDED_BY(mu_);
  bool working_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TASK_THREAD_H_
