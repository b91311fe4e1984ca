#include "worker/trainer/object_store/fetch_pool.h"

#include <algorithm>
#include <utility>

namespace paceline {

FetchPool::~FetchPool() {
  std::vector<std::thread> threads;
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool FetchPool::Add(const void* owner, std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= most_) return false;
  if (threads_.empty()) {
    for (int i = 0; i < most_threads_; ++i) threads_.emplace_back([this] { Run(); });
  }
  waiting_.push_back({owner, std::move(task)});
  changed_.SignalAll();
  return true;
}

void FetchPool::Remove(const void* owner) {
  const absl::MutexLock lock(&mutex_);
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [owner](const Task& task) { return task.owner == owner; }),
                 waiting_.end());
  while (running_.count(owner) > 0) changed_.Wait(&mutex_);
}

std::optional<FetchPool::Task> FetchPool::Take() {
  const absl::MutexLock lock(&mutex_);
  while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
  if (stopping_) return std::nullopt;
  Task task = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_[task.owner];
  return task;
}

void FetchPool::End(const void* owner) {
  const absl::MutexLock lock(&mutex_);
  if (--running_[owner] == 0) running_.erase(owner);
  changed_.SignalAll();
}

void FetchPool::Run() {
  while (std::optional<Task> task = Take()) {
    task->run();
    End(task->owner);
  }
}

}  // namespace paceline
