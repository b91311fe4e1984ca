#include "controller/core/recovery/planned_change.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/lanes.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/planned_replicas.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// How long after a search for a spare's slot found none it is repeated.
constexpr absl::Duration kSearchPause = absl::Seconds(1);

// How many of the seats that a change fills its reason names: a job may grow by thousands.
constexpr int kFillsNamed = 8;

bool Leaves(const Job& job, const NodeName& node) { return job.recovery.vacate.count(node) > 0; }

// Trainers wanted for ranks that still have to leave nodes, and for empty seats.
int WantedForRanks(const Job& job) { return std::max(0, WantedSpares(job) - job.request.spares); }

// Whether that changed anything.
bool ReleaseSurplus(Job& job, Moment now) {
  bool changed = false;
  const auto release = [&](size_t i) {
    RankState spare = std::move(job.spares[i]);
    job.spares.erase(job.spares.begin() + static_cast<int64_t>(i));
    Release(job, std::move(spare), StopGraceOf(job.request), now);
    changed = true;
  };
  for (size_t i = job.spares.size(); i-- > 0;) {
    if (Leaves(job, job.spares[i].slot.node)) release(i);
  }
  // Those that are not ready are released first; of a sharded model's, those that no seat is for.
  if (!std::is_partitioned(job.spares.begin(), job.spares.end(), IsReady)) {
    std::stable_partition(job.spares.begin(), job.spares.end(), IsReady);
    changed = true;  // Their order is stored.
  }
  const bool is_surplus = static_cast<int>(job.spares.size()) > WantedSpares(job);
  if (is_surplus && job.request.shards > 1) SortByUse(job);
  while (static_cast<int>(job.spares.size()) > WantedSpares(job)) release(job.spares.size() - 1);
  return changed;
}

bool MayChange(const Job& job, Moment now) {
  return ChangeUnderWay(job) == nullptr && now.steady >= job.recovery.next_planned &&
         !IsOver(job) && !IsOrderPending(job) &&
         std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
           return !IsLost(member) && member.hangs.empty() &&
                  member.unreachable_since == absl::InfiniteFuture() && HasState(job, member);
         });
}

// Whether the change waits for saves that were under way when it came to be wanted. Before these
// end, others may begin, and so on without an end: they are abandoned, and made again.
bool WaitsForSaves(Job& job) {
  const std::vector<int64_t> steps = StepsUnderWay(job);
  if (steps.empty()) return false;
  int64_t& newest = job.recovery.awaited_save;
  if (newest == 0) newest = steps.back();
  return steps.front() <= newest;
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
  const int present = static_cast<int>(job.ranks.size());
  const int ranks = NextRanks(job, present + static_cast<int>(ready), /*others=*/0);
  std::vector<int> seats = SeatsToFill(job);
  seats.resize(static_cast<size_t>(std::clamp(ranks - present, 0, static_cast<int>(seats.size()))));
  return seats;
}

// Of a job without shards: the spares that can take seats at once.
std::vector<Taker> TakersOf(const Job& job, const std::vector<size_t>& ready) {
  const std::vector<size_t> moving = FindMoving(job, ready.size());
  std::vector<Taker> takers;
  for (const size_t r : moving) takers.push_back({job.ranks[r].seat, ready[takers.size()]});
  for (const int seat : FindGrowth(job, ready.size() - moving.size())) {
    takers.push_back({seat, ready[takers.size()]});
  }
  return takers;
}

// Starts up to `count` trainers. Returns how many of them have no slot.
int Start(Job& job, const FindSlots& find_slots, SlotUse use, int count, Moment now) {
  if (count <= 0) return 0;
  std::vector<Slot> slots = find_slots(job, use, count, nullptr);
  for (Slot& slot : slots) StartSpare(job, std::move(slot), now);
  return count - static_cast<int>(slots.size());
}

// Starts up to `count` trainers that take over ranks and empty seats. Returns how many of them,
// other than those for extra ranks, have no slot.
int StartForRanks(Job& job, const FindSlots& find_slots, int count, Moment now) {
  if (!IsElastic(job.request)) return Start(job, find_slots, SlotUse::kRank, count, now);
  // Those that are there already are for what comes first.
  const int present = static_cast<int>(job.ranks.size());
  const int extra = std::min(count, WantedRanks(job) - std::max(job.request.ranks, present));
  const int growth = std::clamp(job.request.ranks - present, 0, count - extra);
  int missing = Start(job, find_slots, SlotUse::kRank, count - extra - growth, now);
  missing += Start(job, find_slots, SlotUse::kGrowth, growth, now);
  const int missing_extra = Start(job, find_slots, SlotUse::kExtra, extra, now);
  if (missing_extra > 0) GrowLess(job, missing_extra);
  return missing;
}

// Of a job without shards: starts trainers that are missing.
bool StartMissing(Job& job, const FindSlots& find_slots, Moment now) {
  const int missing = MissingSpares(job, now);
  if (missing == 0) return false;
  const size_t before = job.spares.size();
  const int for_ranks =
      std::clamp(WantedForRanks(job) - static_cast<int>(job.spares.size()), 0, missing);
  if (StartForRanks(job, find_slots, for_ranks, now) == 0) {
    Start(job, find_slots, SlotUse::kSpare, missing - for_ranks, now);
  }
  if (MissingSpares(job, now) > 0) job.recovery.next_spare_start = now.steady + kSearchPause;
  return job.spares.size() > before;
}

// The same for a sharded job. A spare may be of no use for the seats that are to be taken, so it is
// not enough to count.
bool StartMissingOfReplicas(Job& job, const FindSlots& find_slots, Moment now) {
  if (!MayStartSpares(job, now) || IsOver(job)) return false;
  MissingTrainers missing = FindMissing(job, find_slots);
  if (missing.extra > 0) GrowLess(job, missing.extra);
  for (Slot& slot : missing.slots) StartSpare(job, std::move(slot), now);
  const int to_stand_by = job.request.spares - missing.idle;
  std::vector<Slot> slots;
  if (to_stand_by > 0 && missing.found_all) {
    slots = find_slots(job, SlotUse::kSpare, to_stand_by, nullptr);
  }
  const bool found_all = missing.found_all && static_cast<int>(slots.size()) >= to_stand_by;
  const bool started = !missing.slots.empty() || !slots.empty();
  for (Slot& slot : slots) StartSpare(job, std::move(slot), now);
  if (!found_all) job.recovery.next_spare_start = now.steady + kSearchPause;
  return started;
}

std::string WhyItMoves(const Job& job, const RankState& leaver) {
  const auto why = job.recovery.vacate.find(leaver.slot.node);
  if (why != job.recovery.vacate.end()) return why->second;
  return absl::StrCat("back to replica ", Lanes{job.request.shards}.ReplicaOf(leaver.seat));
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
  bool changed = job.request.shards > 1 && ChooseMending(job, find_slots, now);
  if (ConsiderGrowth(job, find_slots, now)) changed = true;
  if (ChangeUnderWay(job) == nullptr && ReleaseSurplus(job, now)) changed = true;
  const auto start = job.request.shards == 1 ? StartMissing : StartMissingOfReplicas;
  if (start(job, find_slots, now)) changed = true;
  return changed ? JobChange::kState : JobChange::kNone;
}

JobChange BeginPlannedChange(Job& job, Moment now) {
  const JobChange change = ForgetLeft(job);
  if (!MayChange(job, now)) return change;
  const std::vector<size_t> ready = ReadySpares(job);
  const std::vector<Taker> takers =
      job.request.shards == 1 ? TakersOf(job, ready) : ChooseTakers(job, ready);
  if (takers.empty() && !job.next_plan.has_value() && !GivesBack(job)) {
    job.recovery.awaited_save = 0;
    return change;
  }
  if (WaitsForSaves(job)) return change;
  if (BeginGiveBack(job, now)) return JobChange::kState;
  NextGeneration next;
  next.planned = true;
  next.members = job.ranks;
  next.leaving = job.leaving;
  std::vector<std::string> what;
  std::set<size_t> used;  // Spares.
  int filled = 0;         // Empty seats.
  const std::vector<size_t> lone = LoneMembers(job);
  for (const Taker& taker : takers) {
    used.insert(taker.spare);
    RankState spare = job.spares[taker.spare];
    spare.seat = taker.seat;
    const std::string& node = spare.slot.node.value();
    const RankState* const leaver = HolderOf(job, taker.seat);
    if (leaver == nullptr) {
      if (++filled <= kFillsNamed) {
        what.push_back(absl::StrCat("a trainer on ", node, " fills seat ", taker.seat));
      }
      next.members.push_back(std::move(spare));
      continue;
    }
    const size_t r = static_cast<size_t>(leaver - job.ranks.data());
    next.leaving.push_back(*leaver);
    spare.hands_over = std::find(lone.begin(), lone.end(), r) != lone.end();
    next.leaving.back().hands_over = spare.hands_over;
    what.push_back(absl::StrCat("rank ", r, " moves from ", leaver->slot.node.value(), " to ", node,
                                " (", WhyItMoves(job, *leaver), ")"));
    next.members[r] = std::move(spare);
  }
  if (filled > kFillsNamed) what.push_back(absl::StrCat(filled - kFillsNamed, " more fill seats"));
  const auto wanted = static_cast<size_t>(job.request.ranks);
  if (next.members.size() > std::max(job.ranks.size(), wanted)) {
    what.insert(what.begin(),
                absl::StrCat("grows to ", next.members.size(), " ranks, ",
                             next.members.size() - wanted, " more than the ", wanted, " wanted"));
  }
  if (job.next_plan.has_value()) {
    what.push_back(job.next_plan->slipstream.has_value() ? "the ranks go on with slipstream"
                                                         : "the ranks go on with ddp");
  }
  for (size_t i = 0; i < job.spares.size(); ++i) {
    if (used.count(i) == 0) next.spares.push_back(job.spares[i]);
  }
  std::sort(next.members.begin(), next.members.end(),
            [](const RankState& a, const RankState& b) { return a.seat < b.seat; });
  next.reason = absl::StrJoin(what, ", ");
  BeginGeneration(job, std::move(next), now);
  return JobChange::kState;
}

}  // namespace paceline
