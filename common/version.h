// The version of all our programs, which are released together.
#ifndef COMMON_VERSION_H_
#define COMMON_VERSION_H_

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr char kVersion[] = "0.1.0";

// Version of the job spec, with the strategies of later plans, that our trainers know. It grows
// with a release in which they learn something that those before would take for something else, or
// refuse. NeedsOf in controller/wire/convert_plan.cc lists what that is.
inline constexpr int kSpecVersion = 1;

// Whether `version` is a later release than `than`, that is, has a higher MAJOR.MINOR. Later parts
// never change what programs say to each other. False when `version` is no version, for example
// from a program that sends none.
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
