// A thread that owns state: runs functions posted from any thread one at a time, in the order of
// posting, and timers when they are due.
//
//   EventLoop loop;
//   loop.Post([&] { jobs.Add(...); });           // from any thread
//   loop.After(absl::Seconds(1), [&] { ... });   // from any thread
//   loop.Run();                                  // until Stop()
//
// The queue is unbounded: callers that outside input can trigger must limit themselves.
// Thread-safe, except Run, which one thread calls once.
#ifndef COMMON_EVENT_LOOP_H_
#define COMMON_EVENT_LOOP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using TimerId = int64_t;

  EventLoop() = default;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `task` on the loop. After Stop, the task is dropped when the loop is destroyed.
  void Post(Task task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `task` on the loop once, after `delay` on the monotonic clock.
  TimerId After(absl::Duration delay, Task task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Prevents the timer from running, unless it is running or has run. This also works for a due
  // timer that still waits behind other tasks.
  void Cancel(TimerId timer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs tasks until Stop; tasks posted before Stop still run.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The greatest number of waiting tasks since the last call.
  size_t TakeMostWaiting() ABSL_LOCKS_EXCLUDED(mutex_);

  // Crashes unless called on the loop's thread (or before Run).
  void CheckOnLoop() const;

  // The monotonic clock's time, as a point after an arbitrary start; for core's `now`.
  static absl::Time Now();

 private:
  struct Timer {
    absl::Time due;
    Task task;
  };

  // Runs the timer unless it was cancelled meanwhile.
  void RunTimer(TimerId timer) ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<std::thread::id> thread_{};

  absl::Mutex mutex_;
  absl::CondVar wake_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t most_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<TimerId, Timer> timers_ ABSL_GUARDED_BY(mutex_);
  // Timers without a posted task, by due time, then in the order in which they were set.
  std::set<std::pair<absl::Time, TimerId>> waiting_ ABSL_GUARDED_BY(mutex_);
  TimerId next_timer_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline

#endif  // COMMON_EVENT_LOOP_H_
