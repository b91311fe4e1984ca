// How much code that travels with jobs a controller keeps, of whom, and for how long.
//
// Pure.
#ifndef CONTROLLER_CORE_CODE_QUOTA_H_
#define CONTROLLER_CORE_CODE_QUOTA_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/refusal.h"

namespace paceline {

struct CodeLimits {
  int64_t bytes = int64_t{128} << 20;              // Of all; it is kept in memory.
  int64_t bytes_of_submitter = int64_t{64} << 20;  // Of one of them.
  absl::Duration unused = absl::Minutes(10);       // For a job to be submitted with it.
  absl::Duration unfinished = absl::Minutes(1);    // For the next part to come.
};

// Files of one hash: all of them, or as many as have come so far of one submitter.
struct CodeUse {
  int64_t bytes = 0;              // When all have come.
  std::set<std::string> senders;  // Submitters who have sent them.
  absl::Time touched = {};        // A part has come, or a job that uses them was seen.
  bool complete = false;
};

// The refusal of so many bytes more of `sender`.
inline std::optional<Refusal> RefuseCode(const std::vector<CodeUse>& uses, int64_t bytes,
                                         const std::string& sender, const CodeLimits& limits) {
  int64_t all = bytes;
  int64_t own = bytes;
  for (const CodeUse& use : uses) {
    all += use.bytes;
    if (use.senders.count(sender) > 0) own += use.bytes;
  }
  constexpr char kRemedy[] =
      ": try again when jobs have ended, or put what is large where all nodes see it";
  if (own > limits.bytes_of_submitter) {
    return Refusal{Refusal::Kind::kLimit, "TOO_MUCH_CODE",
                   absl::StrCat("your jobs' code would have ", own,
                                " bytes, and a submitter may "
                                "have ",
                                limits.bytes_of_submitter, kRemedy)};
  }
  if (all > limits.bytes) {
    return Refusal{Refusal::Kind::kLimit, "TOO_MUCH_CODE",
                   absl::StrCat("all jobs' code would have ", all,
                                " bytes, and the controller "
                                "keeps ",
                                limits.bytes, kRemedy)};
  }
  return std::nullopt;
}

// Whether files that no job uses are forgotten.
inline bool IsOutdated(const CodeUse& use, absl::Time now, const CodeLimits& limits) {
  return now - use.touched > (use.complete ? limits.unused : limits.unfinished);
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_CODE_QUOTA_H_
