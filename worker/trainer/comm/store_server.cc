// The store of a generation's members.
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "worker/link/interface_host.h"
#include "worker/trainer/comm/group.h"

namespace paceline {
namespace {

struct Listener {
  int fd = -1;  // Whoever takes it must close it.
  uint16_t port = 0;
};

// Listens on a free port of a host address or name.
Listener ListenAt(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), "0", &hints, &found);
  std::string why = failed == 0 ? "" : ::gai_strerror(failed);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    if (fd >= 0 && ::bind(fd, at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      ::freeaddrinfo(found);
      // IPv4 and IPv6 addresses have the port at the same offset.
      return {fd, ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port)};
    }
    why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
  }
  if (found != nullptr) ::freeaddrinfo(found);
  throw std::runtime_error(
      absl::StrCat("cannot listen at ", host, " (the worker's --interface): ", why));
}

}  // namespace

struct StoreServer::Parts {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

StoreServer::StoreServer(const std::string& interface) : parts_(std::make_unique<Parts>()) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  std::string host = "localhost";
  if (!interface.empty()) {
    const std::optional<std::string> own = InterfaceHost(interface);
    if (!own.has_value()) {
      throw std::runtime_error(absl::StrCat("the network interface ", interface,
                                            " (the worker's --interface) has no address"));
    }
    host = *own;
    const Listener listener = ListenAt(host);
    options.port = listener.port;
    options.masterListenFd = listener.fd;
  }
  parts_->store = c10::make_intrusive<c10d::TCPStore>(host, options);
}

StoreServer::~StoreServer() = default;

int StoreServer::port() const { return parts_->store->getPort(); }

}  // namespace paceline
