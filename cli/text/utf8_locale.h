// Whether a terminal's user has asked for UTF-8.
#ifndef CLI_TEXT_UTF8_LOCALE_H_
#define CLI_TEXT_UTF8_LOCALE_H_

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace paceline {

// Decides by the first of LC_ALL, LC_CTYPE and LANG that is set, as POSIX requires.
// `variable(name)` returns an environment variable, empty if it is not set.
template <typename Variable>
bool SpeaksUtf8(const Variable& variable) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = absl::AsciiStrToLower(variable(name));
    if (value.empty()) continue;
    return absl::StrContains(value, "utf-8") || absl::StrContains(value, "utf8");
  }
  return false;
}

}  // namespace paceline

#endif  // CLI_TEXT_UTF8_LOCALE_H_
