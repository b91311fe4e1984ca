// Addresses in text form: HOST:PORT, with an IPv6 address in brackets.
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

// Parses "HOST:PORT" or "[ADDRESS]:PORT". InvalidArgument for anything else: in an IPv6 address
// without brackets, the port's beginning is unknown.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// The inverse: puts an IPv6 address into brackets. `host` may already have them.
std::string JoinHostPort(absl::string_view host, int port);

// Returns "HOST" or "HOST:PORT" as HOST:PORT. Adds `port` if there is none; an IPv6 address without
// brackets has none.
std::string WithPort(absl::string_view address, int port);

}  // namespace paceline

#endif  // COMMON_CORE_HOST_PORT_H_
