#include "controller/core/recovery/state_groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// Sizes of the groups of seats, in the order of the seats.
std::vector<int> GroupSizes(const Job& job) {
  const std::vector<RankHome> homes = HomesOf(job);
  if (job.plan.ladder.empty()) return LadderGroups(LadderScope::kAll, 0, homes);
  const LadderLevel& lowest = job.plan.ladder.front();
  return LadderGroups(lowest.scope, lowest.size, homes);
}

// The members of each non-empty group, as indices in Job.ranks.
std::vector<std::vector<size_t>> MembersOfGroups(const Job& job) {
  std::vector<std::vector<size_t>> groups;
  int first = 0;
  for (const int size : GroupSizes(job)) {
    std::vector<size_t> members;
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      const int seat = job.ranks[r].seat;
      if (seat >= first && seat < first + size) members.push_back(r);
    }
    if (!members.empty()) groups.push_back(std::move(members));
    first += size;
  }
  return groups;
}

bool IsHeld(const Job& job, const RankState& trainer, int first, int end) {
  return trainer.seat >= first && trainer.seat < end && !IsLost(trainer) && !HasEnded(trainer) &&
         HasState(job, trainer);
}

}  // namespace

std::vector<RankHome> HomesOf(const Job& job) {
  std::vector<RankHome> homes;
  homes.reserve(job.homes.size());
  for (const Slot& home : job.homes) homes.push_back({home.node.value(), home.rack});
  return homes;
}

std::vector<int> GroupsOfSeats(const Job& job) {
  std::vector<int> groups;
  int group = 0;
  for (const int size : GroupSizes(job)) {
    groups.insert(groups.end(), static_cast<size_t>(size), group);
    ++group;
  }
  return groups;
}

std::string WhyStateIsLost(const Job& job) {
  int first = 0;
  for (const int size : GroupSizes(job)) {
    const int end = first + size;
    bool filled = false;
    bool held = false;
    for (const RankState& member : job.ranks) {
      filled = filled || (member.seat >= first && member.seat < end);
      held = held || IsHeld(job, member, first, end);
    }
    // Holders that left for a planned change that did not come about.
    for (const RankState& trainer : job.leaving) {
      held = held || (!trainer.stop.has_value() && IsHeld(job, trainer, first, end) &&
                      trainer.unreachable_since == absl::InfiniteFuture());
    }
    if (filled && !held) {
      if (size == static_cast<int>(job.homes.size())) return "no rank is left with its state";
      return absl::StrCat("no rank is left with the state of ranks ", first, " to ", end - 1);
    }
    first = end;
  }
  return "";
}

std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced) {
  std::vector<size_t> left = replaced;
  for (const std::vector<size_t>& members : MembersOfGroups(job)) {
    const bool all = std::all_of(members.begin(), members.end(), [&](size_t r) {
      return std::find(left.begin(), left.end(), r) != left.end();
    });
    if (all) left.erase(std::find(left.begin(), left.end(), members.back()));
  }
  return left;
}

bool HasLoneMember(const Job& job) {
  const auto groups = MembersOfGroups(job);
  return std::any_of(groups.begin(), groups.end(),
                     [](const std::vector<size_t>& members) { return members.size() == 1; });
}

}  // namespace paceline
