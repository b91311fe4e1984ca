// How much code sent along with jobs a controller keeps, from whom, and for how long.
//
// Pure.
#ifndef CONTROLLER_CORE_REQUESTS_CODE_QUOTA_H_
#define CONTROLLER_CORE_REQUESTS_CODE_QUOTA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/core/bytes_text.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

struct CodeLimits {
  int64_t bytes = int64_t{128} << 20;              // For all code, which is kept in memory.
  int64_t bytes_of_submitter = int64_t{64} << 20;  // For the code of one submitter.
  absl::Duration unused = absl::Minutes(10);       // Until a job must be submitted with it.
  absl::Duration unfinished = absl::Minutes(1);    // Until its next part must come.
  // How long code that no job uses is safe from other code: its job may be on its way.
  absl::Duration resting = absl::Seconds(10);
};

// Files of one hash: all of them, or those that one submitter has sent so far.
struct CodeUse {
  int64_t bytes = 0;              // When all are there.
  std::set<std::string> senders;  // Submitters who have sent them.
  absl::Time touched = {};        // When a part came, or a job that uses them was seen.
  bool complete = false;
  bool used = false;  // By a job that has not ended.
};

struct CodeRoom {
  std::vector<size_t> forgotten;   // Indices of the uses that make room.
  std::optional<Refusal> refusal;  // Set if there is no room; then nothing is forgotten.
};

// Makes room for `bytes` more of `sender`. Resting code makes way, that which has rested longest
// first: the sender's own until its share suffices, then anybody's.
inline CodeRoom MakeCodeRoom(const std::vector<CodeUse>& uses, int64_t bytes,
                             const std::string& sender, absl::Time now, const CodeLimits& limits) {
  const auto is_own = [&](const CodeUse& use) { return use.senders.count(sender) > 0; };
  int64_t all = bytes;
  int64_t own = bytes;
  std::vector<size_t> resting;
  for (size_t i = 0; i < uses.size(); ++i) {
    all += uses[i].bytes;
    if (is_own(uses[i])) own += uses[i].bytes;
    const bool rests = uses[i].complete && !uses[i].used && now - uses[i].touched > limits.resting;
    if (rests) resting.push_back(i);
  }
  std::stable_sort(resting.begin(), resting.end(),
                   [&](size_t a, size_t b) { return uses[a].touched < uses[b].touched; });
  CodeRoom room;
  const auto forget = [&](size_t i) {
    room.forgotten.push_back(i);
    all -= uses[i].bytes;
    if (is_own(uses[i])) own -= uses[i].bytes;
  };
  for (const size_t i : resting) {
    if (own > limits.bytes_of_submitter && is_own(uses[i])) forget(i);
  }
  for (const size_t i : resting) {
    const bool is_left = std::count(room.forgotten.begin(), room.forgotten.end(), i) == 0;
    if (all > limits.bytes && is_left) forget(i);
  }
  const auto refused = [&](const char* whose, int64_t sum, const char* who, int64_t limit) {
    return CodeRoom{
        {},
        Refusal{Refusal::Kind::kLimit, "TOO_MUCH_CODE",
                absl::StrCat(whose, " code would have ", BytesText(sum), ", and ", who, " ",
                             BytesText(limit),
                             ": try again when jobs have ended, or put what is large where all "
                             "nodes see it")}};
  };
  if (own > limits.bytes_of_submitter) {
    return refused("your jobs'", own, "a submitter may have", limits.bytes_of_submitter);
  }
  if (all > limits.bytes) return refused("all jobs'", all, "the controller keeps", limits.bytes);
  return room;
}

// Whether files that no job uses are to be forgotten.
inline bool IsOutdated(const CodeUse& use, absl::Time now, const CodeLimits& limits) {
  return now - use.touched > (use.complete ? limits.unused : limits.unfinished);
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_CODE_QUOTA_H_
