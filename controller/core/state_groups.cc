#include "controller/core/state_groups.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "controller/core/membership.h"

namespace paceline {
namespace {

// Sizes of the groups of seats.
std::vector<int> GroupSizes(const Job& job) {
  std::vector<RankHome> homes;
  homes.reserve(job.homes.size());
  for (const Place& home : job.homes) homes.push_back({home.node.value(), home.rack});
  return LadderGroups(job.plan.groups.scope, job.plan.groups.size, homes);
}

bool IsHeld(const RankState& trainer, int first, int end) {
  return trainer.seat >= first && trainer.seat < end && !IsLost(trainer) && !HasEnded(trainer) &&
         HasState(trainer);
}

}  // namespace

std::string WhyStateIsLost(const Job& job) {
  int first = 0;
  for (const int size : GroupSizes(job)) {
    const int end = first + size;
    bool filled = false;
    bool held = false;
    for (const RankState& member : job.ranks) {
      filled = filled || (member.seat >= first && member.seat < end);
      held = held || IsHeld(member, first, end);
    }
    // Of a planned change that did not come about.
    for (const RankState& trainer : job.leaving) {
      held = held || (!trainer.stop.has_value() && IsHeld(trainer, first, end));
    }
    if (filled && !held) {
      if (size == static_cast<int>(job.homes.size())) return "no rank is left with its state";
      return absl::StrCat("no rank is left with the state of ranks ", first, " to ", end - 1);
    }
    first = end;
  }
  return "";
}

}  // namespace paceline
