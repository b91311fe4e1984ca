#include "cli/drill/core/timeouts.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

// How many times as long as the longest step that was seen a step may take: others share a real
// cluster, and a drill sees few steps.
constexpr double kLeastSteps = 3;
constexpr double kProposedSteps = 10;
// The same of what happens once for each process.
constexpr double kLeastStarts = 1.5;
constexpr double kProposedStarts = 3;

// Below these, a pause of the network or of a machine is taken for a fault.
constexpr absl::Duration kLeastHang = absl::Seconds(6);
constexpr absl::Duration kLeastGiveUp = absl::Minutes(2);
constexpr absl::Duration kLeastStartup = absl::Minutes(2);

// Up to a number that people would choose: whole seconds, then fives, then minutes.
absl::Duration RoundedUp(absl::Duration span) {
  const absl::Duration unit = span <= absl::Seconds(10)   ? absl::Seconds(1)
                              : span <= absl::Seconds(60) ? absl::Seconds(5)
                                                          : absl::Minutes(1);
  return absl::Ceil(span, unit);
}

}  // namespace

std::string SpanText(absl::Duration span) {
  const double seconds = absl::ToDoubleSeconds(span);
  if (seconds < 10) return absl::StrFormat("%.2g s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return absl::StrCat(whole, " s");
  return whole % 60 == 0 ? absl::StrCat(whole / 60, " min")
                         : absl::StrCat(whole / 60, " min ", whole % 60, " s");
}

std::vector<TimeoutLine> JudgeTimeouts(const DrillTimeouts& given, const MeasuredTimes& seen,
                                       bool replaces) {
  const std::string step = absl::StrCat("a step of ", SpanText(seen.step));
  const absl::Duration hang = RoundedUp(std::max(kLeastHang, kProposedSteps * seen.step));
  // Ranks wait in a collective for a newcomer's first step as for any other.
  const absl::Duration collective =
      RoundedUp(std::max(1.5 * hang, kProposedStarts * seen.first_step));
  const absl::Duration startup =
      RoundedUp(std::max({kLeastStartup, 3 * collective, kProposedStarts * seen.until_first}));
  const absl::Duration give_up =
      RoundedUp(std::max({kLeastGiveUp, 2 * collective, kProposedStarts * seen.rejoin}));
  std::vector<TimeoutLine> lines;
  if (replaces) {
    lines.push_back(
        {"stall_warning_s", given.stall_warning, kLeastSteps / 2 * seen.step, hang / 2, step});
    lines.push_back({"hang_timeout_s", given.hang, kLeastSteps * seen.step, hang, step});
  }
  lines.push_back({"collective_timeout_s", given.collective,
                   std::max(kLeastSteps * seen.step, kLeastStarts * seen.first_step), collective,
                   seen.first_step > seen.step
                       ? absl::StrCat("a first step of ", SpanText(seen.first_step))
                       : step});
  lines.push_back({"startup_timeout_s", given.startup, kLeastStarts * seen.until_first, startup,
                   absl::StrCat("a start of ", SpanText(seen.until_first))});
  if (replaces) {
    lines.push_back({"give_up_s", given.give_up, kLeastStarts * seen.rejoin, give_up,
                     absl::StrCat("a rank replaced in ", SpanText(seen.rejoin))});
  }
  return lines;
}

}  // namespace paceline
