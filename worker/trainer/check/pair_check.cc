#include "worker/trainer/check/pair_check.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/core/host_port.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// A client sends this many single bytes and gets each one back. Then it sends kBulkBytes, which are
// answered by one byte.
constexpr int kPings = 200;
constexpr size_t kBulkBytes = 64 << 20;
constexpr size_t kBlock = 256 << 10;
constexpr absl::Duration kPatience = absl::Seconds(10);  // For a whole client.
constexpr int kLookMillis = 50;                          // Between checks whether the server ends.

class Socket {
 public:
  // Gives up at `deadline`, or when `stop` is set; if `stop` is null, only at the deadline.
  Socket(int fd, absl::Time deadline, const std::atomic<bool>* stop)
      : fd_(fd), deadline_(deadline), stop_(stop) {
    const int on = 1;
    const timeval look{0, kLookMillis * 1000};
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof(look));
  }
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), deadline_(other.deadline_), stop_(other.stop_) {}
  Socket(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool Send(const char* bytes, size_t size) const {
    while (size > 0) {
      if (IsOver()) return false;
      const ssize_t sent = ::send(fd_, bytes, size, MSG_NOSIGNAL);
      if (sent < 0 && IsTimeout(errno)) continue;
      if (sent <= 0) return false;
      bytes += sent;
      size -= static_cast<size_t>(sent);
    }
    return true;
  }

  bool Receive(char* bytes, size_t size) const {
    while (size > 0) {
      if (IsOver()) return false;
      const ssize_t received = ::recv(fd_, bytes, size, 0);
      if (received < 0 && IsTimeout(errno)) continue;
      if (received <= 0) return false;
      bytes += received;
      size -= static_cast<size_t>(received);
    }
    return true;
  }

 private:
  static bool IsTimeout(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
  bool IsOver() const { return BootNow() > deadline_ || (stop_ != nullptr && *stop_); }

  int fd_;
  const absl::Time deadline_;
  const std::atomic<bool>* const stop_;
};

void Answer(const Socket& socket) {
  char byte = 0;
  for (int i = 0; i < kPings; ++i) {
    if (!socket.Receive(&byte, 1) || !socket.Send(&byte, 1)) return;
  }
  std::vector<char> block(kBlock);
  for (size_t done = 0; done < kBulkBytes; done += kBlock) {
    if (!socket.Receive(block.data(), kBlock)) return;
  }
  socket.Send(&byte, 1);
}

absl::StatusOr<Socket> Dial(const std::string& address) {
  PACELINE_ASSIGN_OR_RETURN(const HostPort to, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(to.host.c_str(), absl::StrCat(to.port).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(::gai_strerror(error));
  absl::Status status = absl::UnavailableError("no address");
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Socket socket(fd, BootNow() + kPatience, nullptr);
    if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
      ::freeaddrinfo(found);
      return socket;
    }
    status = absl::UnavailableError(std::strerror(errno));
  }
  ::freeaddrinfo(found);
  return status;
}

absl::StatusOr<std::vector<Measurement>> Measure(const Socket& socket) {
  const absl::Status broken = absl::UnavailableError("the peer went away while it was measured");
  std::vector<double> round_trips;
  char byte = 1;
  for (int i = 0; i < kPings; ++i) {
    const absl::Time start = BootNow();
    if (!socket.Send(&byte, 1) || !socket.Receive(&byte, 1)) return broken;
    round_trips.push_back(absl::ToDoubleMicroseconds(BootNow() - start));
  }
  const std::vector<char> block(kBlock, 'x');
  const absl::Time start = BootNow();
  for (size_t done = 0; done < kBulkBytes; done += kBlock) {
    if (!socket.Send(block.data(), kBlock)) return broken;
  }
  if (!socket.Receive(&byte, 1)) return broken;
  const double seconds = absl::ToDoubleSeconds(BootNow() - start);
  return std::vector<Measurement>{
      {"pair_latency", Median(round_trips), "us", false},
      {"pair_bandwidth", static_cast<double>(kBulkBytes) / seconds / 1e9, "GB/s", true}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PairServer>> PairServer::Start(int port,
                                                              const std::string& loopback) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  if (!loopback.empty()) {
    const bool ipv6 = absl::StrContains(loopback, ':');
    ::inet_pton(AF_INET6, absl::StrCat(ipv6 ? "" : "::ffff:", loopback).c_str(),
                &address.sin6_addr);
  }
  socklen_t size = sizeof(address);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd, 4) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const absl::Status status =
        absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on port ", port));
    if (fd >= 0) ::close(fd);
    return status;
  }
  return std::unique_ptr<PairServer>(new PairServer(fd, ntohs(address.sin6_port)));
}

PairServer::PairServer(int fd, int port) : fd_(fd), port_(port) {
  thread_ = std::thread([this] { Serve(); });
}

PairServer::~PairServer() {
  stop_ = true;
  thread_.join();
  ::close(fd_);
}

void PairServer::Serve() {
  while (!stop_) {
    pollfd waited{fd_, POLLIN, 0};
    if (::poll(&waited, 1, kLookMillis) <= 0) continue;
    const int peer = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer >= 0) Answer(Socket(peer, BootNow() + kPatience, &stop_));
  }
}

absl::StatusOr<std::vector<Measurement>> CheckPair(const std::string& address,
                                                   absl::Duration patience) {
  const absl::Time give_up = BootNow() + patience;
  while (true) {
    absl::StatusOr<Socket> socket = Dial(address);
    if (socket.ok()) return Measure(*socket);
    if (absl::IsInvalidArgument(socket.status())) return socket.status();
    if (BootNow() > give_up) {
      return absl::DeadlineExceededError(
          absl::StrCat("network not measured: the peer ", address,
                       " does not answer: ", socket.status().message()));
    }
    ::poll(nullptr, 0, kLookMillis);
  }
}

}  // namespace paceline
