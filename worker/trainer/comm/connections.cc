#include "worker/trainer/comm/connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

// Maximum size of an address in Gloo.
constexpr size_t kMaxAddressBytes = 192;

std::vector<int> OpenFiles() {
  std::vector<int> files;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return files;
  while (const dirent* const entry = readdir(directory)) {
    int file = 0;
    if (absl::SimpleAtoi(entry->d_name, &file)) files.push_back(file);
  }
  closedir(directory);
  return files;
}

// Nothing for an address that is not of TCP, or has no port.
std::optional<Endpoint> EndpointOf(const sockaddr_storage& address) {
  Endpoint end;
  if (address.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof(in));
    end.address[10] = end.address[11] = 0xff;
    std::memcpy(&end.address[12], &in.sin_addr, sizeof(in.sin_addr));
    end.port = ntohs(in.sin_port);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, &address, sizeof(in6));
    std::memcpy(end.address.data(), &in6.sin6_addr, sizeof(in6.sin6_addr));
    end.port = ntohs(in6.sin6_port);
  }
  if (end.port == 0) return std::nullopt;
  return end;
}

struct Connection {
  Endpoint local;
  Endpoint remote;
};

// Nothing for anything but a TCP connection, or one that is being made.
std::optional<Connection> ConnectionOf(int file) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) {
    return std::nullopt;
  }
  int type = 0;
  size = sizeof(type);
  if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
    return std::nullopt;
  }
  sockaddr_storage address{};
  socklen_t local_size = sizeof(address);
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &local_size) != 0) {
    return std::nullopt;
  }
  const std::optional<Endpoint> local = EndpointOf(address);
  if (!local.has_value()) return std::nullopt;
  size = sizeof(address);
  if (getpeername(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    // It may not be connected yet. Then this option alone tells where to; it wants the exact size.
    if (getsockopt(file, SOL_SOCKET, SO_PEERNAME, &address, &local_size) != 0) return std::nullopt;
  }
  const std::optional<Endpoint> remote = EndpointOf(address);
  if (!remote.has_value()) return std::nullopt;
  return Connection{*local, *remote};
}

// Takes a part, which follows its size, from the front of `rest`. Nothing when it is cut short.
std::optional<absl::string_view> TakePart(absl::string_view* rest) {
  uint64_t size = 0;
  if (rest->size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, rest->data(), sizeof(size));
  rest->remove_prefix(sizeof(size));
  if (size > rest->size()) return std::nullopt;
  const absl::string_view part = rest->substr(0, size);
  rest->remove_prefix(size);
  return part;
}

}  // namespace

// Gloo's gloo/transport/tcp/context.cc: the host's name; the address, which is a sockaddr_storage
// and a number; the numbers of pairs.
std::optional<Endpoint> ListenerIn(const std::vector<uint8_t>& value) {
  absl::string_view rest(reinterpret_cast<const char*>(value.data()), value.size());
  if (!TakePart(&rest).has_value()) return std::nullopt;
  const std::optional<absl::string_view> address = TakePart(&rest);
  if (!address.has_value() || address->size() < sizeof(sockaddr_storage) ||
      address->size() > kMaxAddressBytes || rest.size() % sizeof(int64_t) != 0) {
    return std::nullopt;
  }
  sockaddr_storage listener{};
  std::memcpy(&listener, address->data(), sizeof(listener));
  return EndpointOf(listener);
}

void OwnConnections::NoteOwn(const std::vector<uint8_t>& value) {
  const std::optional<Endpoint> listener = ListenerIn(value);
  if (!listener.has_value()) return;
  const absl::MutexLock lock(&mu_);
  own_ports_.insert(listener->port);
}

void OwnConnections::NoteMember(const std::vector<uint8_t>& value) {
  const std::optional<Endpoint> listener = ListenerIn(value);
  if (!listener.has_value()) return;
  const absl::MutexLock lock(&mu_);
  remotes_.insert(*listener);
}

void OwnConnections::NoteStore(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // If this fails, connecting will too.
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return;
  {
    const absl::MutexLock lock(&mu_);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      sockaddr_storage address{};
      if (at->ai_addrlen > sizeof(address)) continue;
      std::memcpy(&address, at->ai_addr, at->ai_addrlen);
      const std::optional<Endpoint> store = EndpointOf(address);
      if (store.has_value()) remotes_.insert(*store);
    }
  }
  freeaddrinfo(found);
}

int OwnConnections::ShutDown(int store_port) {
  std::set<int> own_ports;
  std::set<Endpoint> remotes;
  {
    const absl::MutexLock lock(&mu_);
    own_ports = own_ports_;
    remotes = std::exchange(remotes_before_, remotes_);
    remotes.merge(remotes_);
    remotes_.clear();
  }
  int closed = 0;
  for (const int file : OpenFiles()) {
    const std::optional<Connection> connection = ConnectionOf(file);
    if (!connection.has_value() || connection->local.port == store_port) continue;
    const bool is_own =
        own_ports.count(connection->local.port) > 0 || remotes.count(connection->remote) > 0;
    if (is_own && shutdown(file, SHUT_RDWR) == 0) ++closed;
  }
  return closed;
}

}  // namespace paceline
