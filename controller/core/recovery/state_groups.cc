#include "controller/core/recovery/state_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "common/core/lanes.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// Sizes of the groups of replicas, in the order of their seats.
std::vector<int> GroupSizes(const Job& job) {
  const std::vector<RankHome> homes = HomesOfReplicas(HomesOf(job), job.request.shards);
  if (job.plan.ladder.empty()) return LadderGroups(LadderScope::kAll, 0, homes);
  const LadderLevel& lowest = job.plan.ladder.front();
  return LadderGroups(lowest.scope, lowest.size, homes);
}

// -1: none.
int GroupOf(const std::vector<int>& groups, int seat) {
  const bool is_known = seat >= 0 && seat < static_cast<int>(groups.size());
  return is_known ? groups[static_cast<size_t>(seat)] : -1;
}

// The members of each non-empty group, as indices in Job.ranks, in the order of the groups.
std::map<int, std::vector<size_t>> MembersOfGroups(const Job& job) {
  const std::vector<int> groups = GroupsOfSeats(job);
  std::map<int, std::vector<size_t>> members;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const int group = GroupOf(groups, job.ranks[r].seat);
    if (group != -1) members[group].push_back(r);
  }
  return members;
}

std::string DescribeLoss(const Job& job, const std::vector<int>& groups, int group) {
  const Lanes lanes{job.request.shards};
  const int first =
      static_cast<int>(std::find(groups.begin(), groups.end(), group) - groups.begin());
  const int last =
      static_cast<int>(groups.rend() - std::find(groups.rbegin(), groups.rend(), group)) - 1;
  if (lanes.shards > 1) {
    const int from = lanes.ReplicaOf(first);
    const int to = lanes.ReplicaOf(last);
    return absl::StrCat("no rank is left with the state of position ", lanes.PositionOf(first),
                        from == to ? absl::StrCat(" of replica ", from)
                                   : absl::StrCat(" of replicas ", from, " to ", to));
  }
  if (groups.front() == groups.back()) return "no rank is left with its state";
  return absl::StrCat("no rank is left with the state of ranks ", first, " to ", last);
}

}  // namespace

std::vector<RankHome> HomesOf(const Job& job) {
  std::vector<RankHome> homes;
  homes.reserve(job.homes.size());
  for (const Slot& home : job.homes) homes.push_back({home.node.value(), home.rack});
  return homes;
}

std::vector<int> GroupsOfSeats(const Job& job) {
  const int shards = job.request.shards;
  std::vector<int> groups;
  int first = 0;  // Group of position 0.
  for (const int size : GroupSizes(job)) {
    for (int seat = 0; seat < size * shards; ++seat) groups.push_back(first + seat % shards);
    first += shards;
  }
  return groups;
}

int GroupOfState(const Job& job, const RankState& trainer, const std::vector<int>& groups) {
  if (!HasState(job, trainer)) return -1;
  return GroupOf(groups, job.request.shards == 1 ? trainer.seat : StateSeat(trainer));
}

bool HasStateOfSeat(const Job& job, const RankState& trainer, const std::vector<int>& groups) {
  return GroupOfState(job, trainer, groups) == groups[static_cast<size_t>(trainer.seat)];
}

std::string WhyStateIsLost(const Job& job) {
  const std::vector<int> groups = GroupsOfSeats(job);
  std::set<int> filled;
  std::set<int> held;
  for (const RankState& member : job.ranks) {
    filled.insert(GroupOf(groups, member.seat));
    if (!IsLost(member) && !HasEnded(member)) held.insert(GroupOfState(job, member, groups));
  }
  // With shards it is known whose state they have. Without, none of theirs counts.
  for (const RankState& spare : job.spares) {
    if (IsUsable(job, spare)) held.insert(GroupOfState(job, spare, groups));
  }
  // Holders that left for a planned change that did not come about.
  for (const RankState& trainer : job.leaving) {
    if (!trainer.stop.has_value() && trainer.unreachable_since == absl::InfiniteFuture() &&
        !IsLost(trainer) && !HasEnded(trainer)) {
      held.insert(GroupOfState(job, trainer, groups));
    }
  }
  filled.erase(-1);
  for (const int group : filled) {
    if (held.count(group) == 0) return DescribeLoss(job, groups, group);
  }
  return "";
}

std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced) {
  std::vector<size_t> left = replaced;
  for (const auto& [group, members] : MembersOfGroups(job)) {
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
                     [](const auto& group) { return group.second.size() == 1; });
}

}  // namespace paceline
