#include "cli/config/user_token.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"
#include "common/tls/private_file.h"
#include "common/user_token.h"

namespace paceline {

absl::StatusOr<std::string> ReadUserToken(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, ReadOwnersOnly(path));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (printable && token.size() >= kMinUserToken && token.size() <= kMaxUserToken) {
    return std::string(token);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " holds no token: it must be one line of ", kMinUserToken, " to ",
                   kMaxUserToken, " characters without blanks, as an admin gave it to you"));
}

}  // namespace paceline
