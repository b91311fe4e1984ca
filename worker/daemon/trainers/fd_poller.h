// Waits for file descriptors on its own thread, and runs their callbacks on the loop.
//
// Runs on the loop. The loop must have stopped when this object is destroyed.
#ifndef WORKER_DAEMON_TRAINERS_FD_POLLER_H_
#define WORKER_DAEMON_TRAINERS_FD_POLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "common/event_loop.h"

namespace paceline {

class FdPoller {
 public:
  explicit FdPoller(EventLoop& loop);
  ~FdPoller();
  FdPoller(const FdPoller&) = delete;
  FdPoller& operator=(const FdPoller&) = delete;

  // Runs `ready` once, when `fd` shows one of `events` (EPOLLIN, EPOLLOUT) or an error. Replaces an
  // earlier callback for the same descriptor.
  void Arm(int fd, uint32_t events, std::function<void()> ready);

  // Drops the callback of `fd` without running it. Call this before `fd` is closed.
  void Disarm(int fd);

 private:
  struct Watch {
    uint64_t token = 0;  // Tells stale events of a reused descriptor from new ones.
    std::function<void()> ready;
  };

  void Poll();
  void Fire(int fd, uint64_t token);

  // Constant.
  EventLoop& loop_;
  const int epoll_fd_;
  const int stop_fd_;

  // Owned by the loop.
  std::map<int, Watch> watches_;
  uint64_t next_token_ = 1;

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_FD_POLLER_H_
