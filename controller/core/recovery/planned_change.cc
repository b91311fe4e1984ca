#include "controller/core/recovery/planned_change.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// How long after a search for a spare's slot found none it is repeated.
constexpr absl::Duration kSearchPause = absl::Seconds(1);

bool Leaves(const Job& job, const NodeName& node) { return job.recovery.vacate.count(node) > 0; }

// Trainers wanted for ranks that still have to leave nodes, and for empty seats.
int WantedForRanks(const Job& job) { return std::max(0, WantedSpares(job) - job.request.spares); }

bool ReleaseSurplus(Job& job, Moment now) {
  bool released = false;
  const auto release = [&](size_t i) {
    RankState spare = std::move(job.spares[i]);
    job.spares.erase(job.spares.begin() + static_cast<int64_t>(i));
    Release(job, std::move(spare), StopGraceOf(job.request), now);
    released = true;
  };
  for (size_t i = job.spares.size(); i-- > 0;) {
    if (Leaves(job, job.spares[i].slot.node)) release(i);
  }
  // Those that are not ready are released first.
  std::stable_partition(job.spares.begin(), job.spares.end(), IsReady);
  while (static_cast<int>(job.spares.size()) > WantedSpares(job)) release(job.spares.size() - 1);
  return released;
}

bool MayChange(const Job& job, Moment now) {
  return ChangeUnderWay(job) == nullptr && now.steady >= job.recovery.next_planned &&
         !IsOver(job) && !IsOrderPending(job) && StepsUnderWay(job).empty() &&
         std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
           return !IsLost(member) && member.hangs.empty() &&
                  member.unreachable_since == absl::InfiniteFuture() && HasState(job, member);
         });
}

// Spares that could become members at once, by index.
std::vector<size_t> ReadySpares(const Job& job) {
  std::vector<size_t> ready;
  for (size_t i = 0; i < job.spares.size(); ++i) {
    if (IsReady(job.spares[i]) && IsUsable(job, job.spares[i])) ready.push_back(i);
  }
  return ready;
}

// Members that can be replaced at once on nodes that are to be left, as far as `ready` spares go,
// node by node; by index.
std::vector<size_t> FindMoving(const Job& job, size_t ready) {
  std::vector<size_t> moving;
  for (const auto& [node, why] : job.recovery.vacate) {
    std::vector<size_t> here;
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      if (job.ranks[r].slot.node == node) here.push_back(r);
    }
    if (moving.size() + here.size() <= ready) moving.insert(moving.end(), here.begin(), here.end());
  }
  return WithoutLastHolders(job, moving);
}

std::vector<int> FindGrowth(const Job& job, size_t ready) {
  const RecoveryPolicy& policy = job.request.recovery;
  const int present = static_cast<int>(job.ranks.size());
  const int ranks =
      PossibleRanks(policy.rule, job.request.ranks, policy.batch, present + static_cast<int>(ready),
                    policy.least_samples, job.request.shards);
  std::vector<int> seats;
  const std::vector<bool> filled = FilledSeats(job);
  for (size_t seat = 0; seat < filled.size(); ++seat) {
    if (static_cast<int>(seats.size()) >= ranks - present) break;
    if (!filled[seat]) seats.push_back(static_cast<int>(seat));
  }
  return seats;
}

// Forgets nodes to be left on which the job has nothing more.
JobChange ForgetLeft(Job& job) {
  JobChange change = JobChange::kNone;
  auto& vacate = job.recovery.vacate;
  for (auto node = vacate.begin(); node != vacate.end();) {
    if (HasTrainersOn(job, node->first)) {
      ++node;
      continue;
    }
    node = vacate.erase(node);
    change = JobChange::kState;
  }
  return change;
}

}  // namespace

JobChange KeepSpares(Job& job, const FindSlots& find_slots, Moment now) {
  bool changed = false;
  if (ChangeUnderWay(job) == nullptr) changed = ReleaseSurplus(job, now);
  const int missing = MissingSpares(job, now);
  if (missing > 0) {
    const int for_ranks =
        std::clamp(WantedForRanks(job) - static_cast<int>(job.spares.size()), 0, missing);
    std::vector<Slot> slots = find_slots(job, SlotUse::kRank, for_ranks, nullptr);
    const bool none_kept = static_cast<int>(slots.size()) < for_ranks;
    for (Slot& slot : slots) StartSpare(job, std::move(slot), now);
    changed = changed || !slots.empty();
    const int to_stand_by = missing - for_ranks;
    slots = to_stand_by > 0 && !none_kept ? find_slots(job, SlotUse::kSpare, to_stand_by, nullptr)
                                          : std::vector<Slot>();
    for (Slot& slot : slots) StartSpare(job, std::move(slot), now);
    changed = changed || !slots.empty();
    if (MissingSpares(job, now) > 0) job.recovery.next_spare_start = now.steady + kSearchPause;
  }
  return changed ? JobChange::kState : JobChange::kNone;
}

JobChange BeginPlannedChange(Job& job, Moment now) {
  const JobChange change = ForgetLeft(job);
  if (!MayChange(job, now)) return change;
  const std::vector<size_t> ready = ReadySpares(job);
  const std::vector<size_t> moving = FindMoving(job, ready.size());
  const std::vector<int> growth = FindGrowth(job, ready.size() - moving.size());
  if (moving.empty() && growth.empty() && !job.next_plan.has_value()) return change;
  NextGeneration next;
  next.planned = true;
  next.members = job.ranks;
  next.leaving = job.leaving;
  std::vector<std::string> what;
  size_t used = 0;
  for (const size_t r : moving) {
    const RankState& spare = job.spares[ready[used++]];
    next.leaving.push_back(job.ranks[r]);
    next.members[r] = spare;
    next.members[r].seat = job.ranks[r].seat;
    what.push_back(absl::StrCat("rank ", r, " moves from ", job.ranks[r].slot.node.value(), " to ",
                                spare.slot.node.value(), " (",
                                job.recovery.vacate.at(job.ranks[r].slot.node), ")"));
  }
  for (const int seat : growth) {
    next.members.push_back(job.spares[ready[used++]]);
    next.members.back().seat = seat;
    what.push_back(
        absl::StrCat("a trainer on ", next.members.back().slot.node.value(), " fills seat ", seat));
  }
  if (job.next_plan.has_value()) {
    what.push_back(job.next_plan->slipstream.has_value() ? "the ranks go on with slipstream"
                                                         : "the ranks go on with ddp");
  }
  for (size_t i = 0; i < job.spares.size(); ++i) {
    const auto end = ready.begin() + static_cast<int64_t>(used);
    if (std::find(ready.begin(), end, i) == end) next.spares.push_back(job.spares[i]);
  }
  std::sort(next.members.begin(), next.members.end(),
            [](const RankState& a, const RankState& b) { return a.seat < b.seat; });
  next.reason = absl::StrJoin(what, ", ");
  BeginGeneration(job, std::move(next), now);
  return JobChange::kState;
}

}  // namespace paceline
