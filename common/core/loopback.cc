#include "common/core/loopback.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

bool IsOneLoopback(absl::string_view address) {
  if (address == "::1" || address == "[::1]") return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const absl::string_view part : parts) {
    int number = -1;
    const bool digits = part.find_first_not_of("0123456789") == absl::string_view::npos;
    if (!digits || part.size() > 3 || !absl::SimpleAtoi(part, &number) || number > 255) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsLoopback(absl::string_view addresses) {
  for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
    if (!IsOneLoopback(address)) return false;
  }
  return true;
}

bool IsEveryInterface(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "0.0.0.0" || host == "::" || host == "[::]";
}

}  // namespace paceline
