#include "worker/trainer/object_store/fetch_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/log.h"

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
  if (threads_.empty()) StartThreads();
  if (threads_.empty()) return false;
  waiting_.push_back({owner, std::move(task)});
  changed_.SignalAll();
  return true;
}

std::thread FetchPool::StartOwnThread(std::function<void()> run) {
  return std::thread(std::move(run));
}

void FetchPool::StartThreads() {
  try {
    while (static_cast<int>(threads_.size()) < most_threads_) {
      threads_.reserve(threads_.size() + 1);  // A thread that has begun must not be dropped.
      threads_.push_back(start_thread_([this] { Run(); }));
    }
  } catch (const std::exception& error) {
    if (std::exchange(has_warned_, true)) return;
    PACELINE_LOG(WARNING) << "object_threads_missing threads=" << threads_.size() << " of "
                          << most_threads_ << " reason=\"" << error.what()
                          << "\", less is fetched ahead; raise the limit of tasks or memory of the "
                             "worker's service";
  }
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
    try {
      task->run();
    } catch (const std::exception& error) {
      // Whoever reads what was to be fetched gets the error.
      PACELINE_LOG(WARNING) << "object_not_fetched_ahead reason=\"" << error.what() << "\"";
    }
    End(task->owner);
  }
}

}  // namespace paceline
