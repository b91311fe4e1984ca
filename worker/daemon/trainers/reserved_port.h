// A TCP port, reserved for a command until the command opens it.
//
// The socket is bound but never listens. With SO_REUSEADDR on both sockets, a store of
// torch.distributed can bind and listen beside it (tested with torch 2.11, both backends).
#ifndef WORKER_DAEMON_TRAINERS_RESERVED_PORT_H_
#define WORKER_DAEMON_TRAINERS_RESERVED_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace paceline {

class ReservedPort {
 public:
  // Binds `port` (0: any) on all IPv6 and IPv4 addresses; on IPv4 only where IPv6 is missing.
  static absl::StatusOr<ReservedPort> Take(int port) {
    absl::StatusOr<ReservedPort> both = Bind(AF_INET6, port);
    return both.ok() ? std::move(both) : Bind(AF_INET, port);
  }

  ReservedPort(ReservedPort&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}
  ReservedPort& operator=(ReservedPort&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(port_, other.port_);
    return *this;
  }
  ~ReservedPort() {
    if (fd_ >= 0) ::close(fd_);
  }

  int port() const { return port_; }

 private:
  ReservedPort(int fd, int port) : fd_(fd), port_(port) {}

  static absl::StatusOr<ReservedPort> Bind(int family, int port) {
    const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ReservedPort reserved(fd, port);
    const int on = 1;
    const int off = 0;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in6 six = {};
    sockaddr_in four = {};
    sockaddr* const address =
        family == AF_INET6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    socklen_t size = family == AF_INET6 ? sizeof(six) : sizeof(four);
    six.sin6_family = AF_INET6;
    six.sin6_port = four.sin_port = htons(static_cast<uint16_t>(port));
    four.sin_family = AF_INET;
    if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (fd < 0 || ::bind(fd, address, size) != 0 || ::getsockname(fd, address, &size) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot reserve port ", port));
    }
    reserved.port_ = ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
    return reserved;
  }

  int fd_;
  int port_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_RESERVED_PORT_H_
