// Addresses as people and programs write them: HOST:PORT, an IPv6 address in brackets.
#ifndef COMMON_CORE_HOST_PORT_H_
#define COMMON_CORE_HOST_PORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

struct HostPort {
  std::string host;  // Without brackets; empty: all interfaces.
  int port = 0;      // 0: any.
};

// Of "HOST:PORT" or "[ADDRESS]:PORT". InvalidArgument otherwise: an IPv6 address without brackets
// does not say where the port begins.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// The way back: puts an IPv6 address into brackets. `host` may have them already.
std::string JoinHostPort(absl::string_view host, int port);

// "HOST" or "HOST:PORT" as HOST:PORT; without a port, also for an IPv6 address without brackets,
// with `port`.
std::string WithPort(absl::string_view address, int port);

}  // namespace paceline

#endif  // COMMON_CORE_HOST_PORT_H_
