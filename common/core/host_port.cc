#include "common/core/host_port.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

constexpr size_t kNone = absl::string_view::npos;

bool IsPort(absl::string_view text, int* port) {
  return !text.empty() && text.find_first_not_of("0123456789") == kNone && text.size() <= 5 &&
         absl::SimpleAtoi(text, port) && *port <= 65535;
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != kNone && IsPort(text.substr(colon + 1), &parsed.port)) {
    absl::string_view host = text.substr(0, colon);
    const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    if (host.find_first_of("[]") == kNone && absl::StrContains(host, ':') == brackets) {
      parsed.host = std::string(host);
      return parsed;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is not an address: write HOST:PORT, and an IPv6 address in brackets, as in [::1]:7450"));
}

std::string JoinHostPort(absl::string_view host, int port) {
  const bool bare = absl::StrContains(host, ':') && !absl::StartsWith(host, "[");
  return bare ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::string WithPort(absl::string_view address, int port) {
  const size_t colon = address.find(':');
  const bool ipv6 = colon != kNone && address.find(':', colon + 1) != kNone;
  const bool whole =
      ipv6 ? absl::StartsWith(address, "[") && !absl::EndsWith(address, "]") : colon != kNone;
  return whole ? std::string(address) : JoinHostPort(address, port);
}

}  // namespace paceline
