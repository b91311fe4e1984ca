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
  // The only level is the last, which is of all ranks (MakeTrainingPlan).
  if (job.plan.ladder.size() < 2) return LadderGroups(LadderScope::kAll, 0, homes);
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

// "replica 2", "replicas 0 to 1": those with seats of the group.
std::string DescribeReplicas(const Lanes& lanes, const std::vector<int>& groups, int group) {
  const auto first = std::find(groups.begin(), groups.end(), group);
  const auto last = std::find(groups.rbegin(), groups.rend(), group);
  const int from = lanes.ReplicaOf(static_cast<int>(first - groups.begin()));
  const int to = lanes.ReplicaOf(static_cast<int>(groups.rend() - last) - 1);
  return from == to ? absl::StrCat("replica ", from) : absl::StrCat("replicas ", from, " to ", to);
}

std::string DescribeLoss(const Job& job, const std::vector<int>& groups, int group) {
  const Lanes lanes{job.request.shards};
  if (lanes.shards > 1) {
    return absl::StrCat("no rank is left with the state of position ", group % lanes.shards, " of ",
                        DescribeReplicas(lanes, groups, group));
  }
  const int first =
      static_cast<int>(std::find(groups.begin(), groups.end(), group) - groups.begin());
  const int last =
      static_cast<int>(groups.rend() - std::find(groups.rbegin(), groups.rend(), group)) - 1;
  if (groups.front() == groups.back()) return "no rank is left with its state";
  return absl::StrCat("no rank is left with the state of ranks ", first, " to ", last);
}

// Whether a replica with seats of the group has all of its state: `seats` are those whose state is
// held.
bool HasWholeReplica(const Lanes& lanes, const std::vector<int>& groups, int group,
                     const std::set<int>& seats) {
  const int position = group % lanes.shards;
  for (int replica = 0; replica < lanes.ReplicasIn(static_cast<int>(groups.size())); ++replica) {
    if (groups[static_cast<size_t>(lanes.RankOf(replica, position))] != group) continue;
    bool whole = true;
    for (int other = 0; other < lanes.shards; ++other) {
      whole = whole && seats.count(lanes.RankOf(replica, other)) > 0;
    }
    if (whole) return true;
  }
  return false;
}

// WithoutLastHolders if replicas differ.
std::vector<size_t> WithoutLastReplicas(const Job& job, const std::vector<size_t>& replaced) {
  const Lanes lanes{job.request.shards};
  std::set<int> changing;  // Replicas.
  for (const size_t r : replaced) changing.insert(lanes.ReplicaOf(job.ranks[r].seat));
  const bool may_hand_over = !WhyNoHandOver(job).has_value();
  std::set<int> staying;
  for (const auto& [group, members] : MembersOfGroups(job)) {
    // As in WithoutLastHolders.
    if (group % lanes.shards != 0 || (members.size() == 1 && may_hand_over)) continue;
    const bool all = std::all_of(members.begin(), members.end(), [&](size_t r) {
      return changing.count(lanes.ReplicaOf(job.ranks[r].seat)) > 0;
    });
    if (all) staying.insert(lanes.ReplicaOf(job.ranks[members.back()].seat));
  }
  std::vector<size_t> left;
  for (const size_t r : replaced) {
    if (staying.count(lanes.ReplicaOf(job.ranks[r].seat)) == 0) left.push_back(r);
  }
  return left;
}

// The newest generation in which somebody who is left has trained.
Generation NewestTrained(const Job& job) {
  Generation newest{0};
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (const RankState& trainer : *part) {
      if (IsLost(trainer) || HasEnded(trainer)) continue;
      newest = std::max(newest, trainer.report.membership.generation);
    }
  }
  return newest;
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

bool ReplicasDiffer(const Job& job) {
  return job.request.shards > 1 && job.request.strategy.has_ladder;
}

int SeatOfState(const Job& job, const RankState& trainer) {
  if (!HasState(job, trainer)) return -1;
  if (job.request.shards == 1) return trainer.seat;
  const int seat = StateSeat(trainer);
  const Generation trained = trainer.report.membership.generation;
  if (trained == job.generation) return seat;
  // All members of a generation have their states before anybody trains in it.
  const Generation newest = NewestTrained(job);
  if (!(trained < newest)) return seat;
  const Lanes lanes{job.request.shards};
  const int later = SeatIn(trainer, newest);
  return lanes.PositionOf(later) == lanes.PositionOf(seat) ? later : -1;
}

int GroupOfState(const Job& job, const RankState& trainer, const std::vector<int>& groups) {
  return GroupOf(groups, SeatOfState(job, trainer));
}

bool HasStateOfSeat(const Job& job, const RankState& trainer, const std::vector<int>& groups) {
  return GroupOfState(job, trainer, groups) == groups[static_cast<size_t>(trainer.seat)];
}

std::string WhyStateIsLost(const Job& job) {
  const std::vector<int> groups = GroupsOfSeats(job);
  std::set<int> filled;
  std::set<int> seats;  // Those whose state is held.
  for (const RankState& member : job.ranks) {
    filled.insert(GroupOf(groups, member.seat));
    if (!IsLost(member) && !HasEnded(member)) seats.insert(SeatOfState(job, member));
  }
  // With shards it is known whose state they have. Without, none of theirs counts.
  for (const RankState& spare : job.spares) {
    if (IsUsable(job, spare)) seats.insert(SeatOfState(job, spare));
  }
  // Holders that left for a planned change that did not come about.
  for (const RankState& trainer : job.leaving) {
    if (!trainer.stop.has_value() && trainer.unreachable_since == absl::InfiniteFuture() &&
        !IsLost(trainer) && !HasEnded(trainer)) {
      seats.insert(SeatOfState(job, trainer));
    }
  }
  std::set<int> held;
  for (const int seat : seats) held.insert(GroupOf(groups, seat));
  filled.erase(-1);
  for (const int group : filled) {
    if (held.count(group) == 0) return DescribeLoss(job, groups, group);
  }
  if (!ReplicasDiffer(job)) return "";
  const Lanes lanes{job.request.shards};
  for (const int group : filled) {
    if (HasWholeReplica(lanes, groups, group, seats)) continue;
    return absl::StrCat("each of ", DescribeReplicas(lanes, groups, group),
                        " has lost a part of its parameters, which differ from the others'");
  }
  return "";
}

std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced) {
  if (ReplicasDiffer(job)) return WithoutLastReplicas(job, replaced);
  const bool may_hand_over = !WhyNoHandOver(job).has_value();
  std::vector<size_t> left = replaced;
  for (const auto& [group, members] : MembersOfGroups(job)) {
    const bool all = std::all_of(members.begin(), members.end(), [&](size_t r) {
      return std::find(left.begin(), left.end(), r) != left.end();
    });
    if (all && (members.size() > 1 || !may_hand_over)) {
      left.erase(std::find(left.begin(), left.end(), members.back()));
    }
  }
  return left;
}

std::optional<std::string> WhyNoHandOver(const Job& job) {
  const std::vector<size_t> lone = LoneMembers(job);
  if (lone.empty()) return std::nullopt;
  if (job.plan.slipstream.has_value() || job.request.strategy.is_auto) {
    return "no other rank has the same state to give it on";
  }
  const auto cannot = [](const RankState& trainer) {
    return !trainer.report.membership.can_hand_over;
  };
  const bool is_old =
      std::any_of(lone.begin(), lone.end(), [&](size_t r) { return cannot(job.ranks[r]); }) ||
      std::any_of(job.spares.begin(), job.spares.end(),
                  [&](const RankState& spare) { return IsReady(spare) && cannot(spare); });
  if (!is_old) return std::nullopt;
  return "no other rank has the same state to give it on, and trainers of an earlier release "
         "cannot hand it over";
}

std::vector<size_t> LoneMembers(const Job& job) {
  std::vector<size_t> lone;
  for (const auto& [group, members] : MembersOfGroups(job)) {
    if (members.size() == 1) lone.push_back(members.front());
  }
  return lone;
}

}  // namespace paceline
