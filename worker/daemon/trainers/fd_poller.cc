#include "worker/daemon/trainers/fd_poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/log.h"

namespace paceline {
namespace {

// Packs the event's data: the low half of the token above the descriptor.
uint64_t Pack(int fd, uint64_t token) {
  return token << 32 | static_cast<uint64_t>(static_cast<uint32_t>(fd));
}

constexpr int kStop = -1;

}  // namespace

FdPoller::FdPoller(EventLoop& loop)
    : loop_(loop),
      epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  PACELINE_CHECK(epoll_fd_ >= 0 && stop_fd_ >= 0) << "no descriptors left";
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = Pack(kStop, 0);
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, stop_fd_, &event);
  thread_ = std::thread([this] { Poll(); });
}

FdPoller::~FdPoller() {
  const uint64_t one = 1;
  PACELINE_CHECK(::write(stop_fd_, &one, sizeof(one)) == ssize_t{sizeof(one)});
  thread_.join();
  ::close(stop_fd_);
  ::close(epoll_fd_);
}

void FdPoller::Arm(int fd, uint32_t events, std::function<void()> ready) {
  loop_.CheckOnLoop();
  const auto [entry, is_new] = watches_.try_emplace(fd);
  entry->second.token = next_token_++ & 0xffffffff;
  entry->second.ready = std::move(ready);
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = Pack(fd, entry->second.token);
  const int added = ::epoll_ctl(epoll_fd_, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  PACELINE_CHECK(added == 0) << "cannot watch descriptor " << fd << ", errno " << errno;
}

void FdPoller::Disarm(int fd) {
  loop_.CheckOnLoop();
  if (watches_.erase(fd) > 0) ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void FdPoller::Poll() {
  while (true) {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_fd_, events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = static_cast<int>(static_cast<uint32_t>(events[i].data.u64));
      if (fd == kStop) return;
      const uint64_t token = events[i].data.u64 >> 32;
      loop_.Post([this, fd, token] { Fire(fd, token); });
    }
  }
}

void FdPoller::Fire(int fd, uint64_t token) {
  const auto found = watches_.find(fd);
  if (found == watches_.end() || found->second.token != token) return;
  // `ready` may arm or disarm the descriptor.
  const std::function<void()> ready = std::exchange(found->second.ready, nullptr);
  found->second.token = 0;
  if (ready) ready();
}

}  // namespace paceline
