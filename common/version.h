// The version of all our programs; they are released together.
#ifndef COMMON_VERSION_H_
#define COMMON_VERSION_H_

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr char kVersion[] = "0.1.0";

// Whether `version` is of a later release than `than`: its MAJOR.MINOR is higher. What is behind
// these changes nothing that programs say to each other. False for what is no version, such as
// that of a program which says none.
inline bool IsLaterRelease(absl::string_view version, absl::string_view than) {
  const auto release = [](absl::string_view text) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
    std::pair<int, int> number{-1, -1};
    if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &number.first) ||
        !absl::SimpleAtoi(parts[1], &number.second)) {
      return std::pair{-1, -1};
    }
    return number;
  };
  return release(version) > release(than);
}

}  // namespace paceline

#endif  // COMMON_VERSION_H_
