// Runs on the loop what waits for a file descriptor; the waiting is done by a thread of its
// own.
//
// Runs on the loop. The loop must not run any more when this object is destroyed.
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

  // Runs `ready` once, when `fd` shows one of `events` (EPOLLIN, EPOLLOUT) or an error.
  // Replaces what waited for the same descriptor.
  void Arm(int fd, uint32_t events, std::function<void()> ready);

  // To be called before `fd` is closed. What waited for it does not run.
  void Disarm(int fd);

 private:
  struct Watch {
    uint64_t token = 0;  // Tells an old event of the descriptor's number from a new one.
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
