#include "worker/trainer/checkpoint/task_thread.h"

#include <utility>

namespace paceline {

TaskThread::TaskThread() : thread_([this] { Run(); }) {}

TaskThread::~TaskThread() {
  {
    const absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  thread_.join();
}

void TaskThread::Enqueue(std::function<void()> task) {
  const absl::MutexLock lock(&mu_);
  line_.push_back(std::move(task));
}

bool TaskThread::Drain(absl::Duration patience) {
  const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return line_.empty() && !working_; };
  const absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&idle), patience);
}

void TaskThread::Run() {
  const auto has_work = [this]()
                            ABSL_SHARED_LOCKS_REQUIRED(mu_) { return ending_ || !line_.empty(); };
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mu_);
      working_ = false;
      mu_.Await(absl::Condition(&has_work));
      if (line_.empty()) return;
      working_ = true;
      task = std::move(line_.front());
      line_.pop_front();
    }
    task();
  }
}

}  // namespace paceline
