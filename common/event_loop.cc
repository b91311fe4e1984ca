#include "common/event_loop.h"

#include <algorithm>
#include <chrono>

#include "common/log.h"

namespace paceline {

absl::Time EventLoop::Now() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void EventLoop::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  most_waiting_ = std::max(most_waiting_, tasks_.size());
  wake_.Signal();
}

EventLoop::TimerId EventLoop::After(absl::Duration delay, Task task) {
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_timer_++;
  const absl::Time due = Now() + delay;
  timers_.emplace(id, Timer{due, std::move(task)});
  waiting_.emplace(due, id);
  wake_.Signal();
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  absl::MutexLock lock(&mutex_);
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  waiting_.erase({found->second.due, timer});
  timers_.erase(found);
}

void EventLoop::RunTimer(TimerId timer) {
  Task task;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = timers_.find(timer);
    if (found == timers_.end()) return;
    task = std::move(found->second.task);
    timers_.erase(found);
  }
  task();
}

void EventLoop::Run() {
  thread_ = std::this_thread::get_id();
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      while (true) {
        const absl::Time now = Now();
        if (!waiting_.empty() && waiting_.begin()->first <= now) {
          tasks_.push_back([this, timer = waiting_.begin()->second] { RunTimer(timer); });
          waiting_.erase(waiting_.begin());
        }
        if (!tasks_.empty()) break;
        if (stopped_) return;
        if (waiting_.empty()) {
          wake_.Wait(&mutex_);
        } else {
          wake_.WaitWithTimeout(&mutex_, waiting_.begin()->first - now);
        }
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void EventLoop::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  wake_.Signal();
}

size_t EventLoop::TakeMostWaiting() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(most_waiting_, tasks_.size());
}

void EventLoop::CheckOnLoop() const {
  const std::thread::id owner = thread_;
  PACELINE_CHECK(owner == std::thread::id() || owner == std::this_thread::get_id())
      << "state of the event loop touched from another thread";
}

}  // namespace paceline
