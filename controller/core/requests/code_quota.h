// How much code that travels with jobs a controller keeps, of whom, and for how long.
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
  int64_t bytes = int64_t{128} << 20;              // Of all; it is kept in memory.
  int64_t bytes_of_submitter = int64_t{64} << 20;  // Of one of them.
  absl::Duration unused = absl::Minutes(10);       // For a job to be submitted with it.
  absl::Duration unfinished = absl::Minutes(1);    // For the next part to come.
  // What no job uses makes room for other code after so long: its job may be on its way.
  absl::Duration resting = absl::Seconds(10);
};

// Files of one hash: all of them, or as many as have come so far of one submitter.
struct CodeUse {
  int64_t bytes = 0;              // When all have come.
  std::set<std::string> senders;  // Submitters who have sent them.
  absl::Time touched = {};        // A part has come, or a job that uses them was seen.
  bool complete = false;
  bool used = false;  // By a job that has not ended.
};

struct CodeRoom {
  std::vector<size_t> forgotten;   // Of the uses, by index: what makes room.
  std::optional<Refusal> refusal;  // There is no room; nothing is forgotten.
};

// Room for so many bytes more of `sender`: what rests makes way, that first which rests longest; of
// the sender's own as much as its share wants, then of anybody's.
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

// Whether files that no job uses are forgotten.
inline bool IsOutdated(const CodeUse& use, absl::Time now, const CodeLimits& limits) {
  return now - use.touched > (use.complete ? limits.unused : limits.unfinished);
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_CODE_QUOTA_H_
