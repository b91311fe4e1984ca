#include "worker/trainer/comm/connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "absl/strings/numbers.h"

namespace paceline {
namespace {

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

// The local port of a TCP connection; 0 for anything else.
int PortOf(int file) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) return 0;
  sockaddr_storage address{};
  size = sizeof(address);
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return 0;
}

}  // namespace

int ShutDownConnections(int store_port) {
  int closed = 0;
  for (const int file : OpenFiles()) {
    const int port = PortOf(file);
    if (port != 0 && port != store_port && shutdown(file, SHUT_RDWR) == 0) ++closed;
  }
  return closed;
}

}  // namespace paceline
