// Runs slow work on threads of its own so that it does not block the loop, and then handles the
// result on the loop.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_SIDE_THREADS_H_
#define WORKER_DAEMON_SIDE_THREADS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "common/event_loop.h"

namespace paceline {

class SideThreads {
 public:
  // `stop` becomes true when the result is no longer wanted; the work should then end soon.
  using Work = std::function<void(const std::atomic<bool>& stop)>;

  // `loop` outlives this object.
  explicit SideThreads(EventLoop& loop) : loop_(loop) {}
  // Waits for running work, without calling its `done`. Requires: the loop has stopped.
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  void Run(Work work, std::function<void()> done);

 private:
  EventLoop& loop_;
  std::atomic<bool> stop_{false};
  std::map<int64_t, std::thread> threads_;
  int64_t last_ = 0;
};

inline SideThreads::~SideThreads() {
  stop_ = true;
  for (auto& [number, thread] : threads_) thread.join();
}

inline void SideThreads::Run(Work work, std::function<void()> done) {
  loop_.CheckOnLoop();
  const int64_t number = ++last_;
  threads_[number] = std::thread([this, number, work = std::move(work), done = std::move(done)] {
    work(stop_);
    loop_.Post([this, number, done] {
      const auto ended = threads_.find(number);
      ended->second.join();
      threads_.erase(ended);
      done();
    });
  });
}

}  // namespace paceline

#endif  // WORKER_DAEMON_SIDE_THREADS_H_
