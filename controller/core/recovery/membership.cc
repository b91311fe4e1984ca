#include "controller/core/recovery/membership.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/job/plan.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/leavers_mean.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

bool Vacates(const Job& job, const RankState& trainer) {
  return job.recovery.vacate.count(trainer.slot.node) > 0;
}

void UseNode(Job& job, const NodeName& node) {
  const auto at = std::lower_bound(job.nodes.begin(), job.nodes.end(), node);
  if (at == job.nodes.end() || *at != node) job.nodes.insert(at, node);
}

// Gives up the unfinished saves of the generation before; an order goes to the next generation.
void CarryOverSaves(Job& job) {
  JobCheckpoints& checkpoints = job.checkpoints;
  LeaveSavesElsewhere(job);
  checkpoints.saves.clear();
  checkpoints.forgotten_step = 0;
  if (!IsOrderPending(job)) return;
  SaveOrder& order = *checkpoints.order;
  const std::string base = BaseOf(job, order.number);
  ++order.number;
  if (!base.empty()) checkpoints.directories[order.number] = base;
  order.generation = job.generation;
}

// Membership::hand_over.
Rank HandOverOf(const Job& job, const RankState& trainer) {
  if (!trainer.hands_over || trainer.stop.has_value()) return Rank(-1);
  // For the newcomer also when the other one is gone: without its state it must not train.
  const RankState* const holder = HolderOf(job, trainer.seat);
  return holder == nullptr ? Rank(-1) : RankOf(job, *holder);
}

// Of an elastic job: seats that it has for the first time are where they were first taken.
void AddHomes(Job& job) {
  if (!IsElastic(job.request)) return;
  for (const RankState& member : job.ranks) {
    if (member.seat == static_cast<int>(job.homes.size())) job.homes.push_back(member.slot);
  }
}

RankBatch BatchOf(const Job& job, int ranks) {
  const RecoveryPolicy& policy = job.request.recovery;
  return BatchFor(policy.rule, job.request.ranks, policy.batch, ranks, policy.least_samples)
      .value_or(policy.batch);
}

}  // namespace

bool HasMembers(const Job& job) {
  return job.state == JobState::kStarting || job.state == JobState::kRunning ||
         job.state == JobState::kRecovering;
}

bool Recovers(const Job& job) { return job.request.recovery.max_failures > 0; }

std::vector<const RankState*> TrainersOf(const Job& job) {
  std::vector<const RankState*> all;
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (const RankState& trainer : *part) all.push_back(&trainer);
  }
  return all;
}

RankState* FindTrainer(Job& job, const TrainerId& id) {
  // A shortcut, as usually no trainer has been replaced.
  const int r = id.rank.value();
  if (r >= 0 && r < static_cast<int>(job.ranks.size()) &&
      job.ranks[static_cast<size_t>(r)].report.id == id) {
    return &job.ranks[static_cast<size_t>(r)];
  }
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      if (trainer.report.id == id) return &trainer;
    }
  }
  return nullptr;
}

bool UsesNode(const Job& job, const NodeName& node) {
  return std::binary_search(job.nodes.begin(), job.nodes.end(), node);
}

bool HasTrainersOn(const Job& job, const NodeName& node) {
  const auto trainers = TrainersOf(job);
  return std::any_of(trainers.begin(), trainers.end(),
                     [&](const RankState* trainer) { return trainer->slot.node == node; });
}

Rank RankOf(const Job& job, const RankState& trainer) {
  const int known = trainer.report.id.rank.value();
  if (known >= 0 && known < static_cast<int>(job.ranks.size()) &&
      job.ranks[static_cast<size_t>(known)].report.id == trainer.report.id) {
    return Rank(known);
  }
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (job.ranks[r].report.id == trainer.report.id) return Rank(static_cast<int>(r));
  }
  return Rank(-1);
}

const RankState* HolderOf(const Job& job, int seat) {
  for (const RankState& member : job.ranks) {
    if (member.seat == seat) return &member;
  }
  return nullptr;
}

std::vector<bool> FilledSeats(const Job& job) {
  std::vector<bool> filled(job.homes.size(), false);
  for (const RankState& member : job.ranks) {
    if (member.seat >= 0 && member.seat < static_cast<int>(filled.size())) {
      filled[static_cast<size_t>(member.seat)] = true;
    }
  }
  return filled;
}

bool IsWhole(const Job& job) {
  return static_cast<int>(job.ranks.size()) == job.request.ranks &&
         job.homes.size() == job.ranks.size();
}

std::string TrainingText(const Job& job) {
  const int ranks = static_cast<int>(job.ranks.size());
  const int more = ranks - job.request.ranks;
  if (!IsElastic(job.request) || more == 0) return "all ranks train";
  return absl::StrCat(ranks, ranks == 1 ? " rank trains, " : " ranks train, ", std::abs(more),
                      more > 0 ? " more" : " fewer", " than the ", job.request.ranks, " wanted");
}

void NoteSeat(const Job& job, RankState& trainer, int seat) {
  if (job.request.shards == 1) return;
  auto& seats = trainer.seats;
  while (seats.size() > 1 &&
         !(trainer.report.membership.generation < std::next(seats.begin())->first)) {
    seats.erase(seats.begin());
  }
  const int last = seats.empty() ? -1 : seats.rbegin()->second;
  if (last != seat) seats[job.generation] = seat;
}

int SeatIn(const RankState& trainer, Generation generation) {
  const auto later = trainer.seats.upper_bound(generation);
  return later == trainer.seats.begin() ? -1 : std::prev(later)->second;
}

int StateSeat(const RankState& trainer) {
  return SeatIn(trainer, trainer.report.membership.generation);
}

Membership MembershipOf(const Job& job, const RankState& trainer) {
  const MembershipChange* change = ChangeUnderWay(job);
  Membership membership;
  membership.generation = job.generation;
  membership.rank = RankOf(job, trainer);
  membership.world_size = static_cast<int>(job.ranks.size());
  membership.planned = change != nullptr && change->planned;
  membership.averages_first = change != nullptr && change->averages_first;
  membership.shards = job.request.shards;
  membership.hand_over = HandOverOf(job, trainer);
  if (membership.hand_over != Rank(-1)) membership.store_address = StoreAddress(job);
  if (membership.rank == Rank(-1)) return membership;
  membership.store_address = StoreAddress(job);
  membership.batch = job.recovery.batch;
  membership.copies = CopiesOf(job, trainer);
  if (change != nullptr && SavesCheckpoints(job.request)) membership.saved_step = StepOfStart(job);
  return membership;
}

bool HasEnded(const RankState& trainer) { return trainer.report.state == TrainerState::kExited; }

bool HasFailed(const RankState& trainer) {
  return HasEnded(trainer) && trainer.report.exit.has_value() &&
         trainer.report.exit->failure != FailureKind::kNone;
}

bool FailedInRehearsal(const RankState& trainer) {
  // No other trainer is in a phase before it has a store. Of one that is lost, the phase may be
  // that of an earlier process.
  return HasFailed(trainer) && trainer.report.exit->failure != FailureKind::kLost &&
         trainer.report.store_address.empty() && trainer.report.exit->phase != 0;
}

bool HoldsSlot(const Job& job, const RankState& trainer) {
  return !Recovers(job) || !HasEnded(trainer) || !IsLost(trainer);
}

bool IsLost(const RankState& member) { return HasFailed(member) || !member.lost.empty(); }

bool IsUsable(const Job& job, const RankState& spare) {
  return !HasEnded(spare) && !Vacates(job, spare) &&
         spare.unreachable_since == absl::InfiniteFuture();
}

bool IsReady(const RankState& trainer) {
  return trainer.report.state != TrainerState::kStarting && !HasEnded(trainer) &&
         !trainer.report.store_address.empty();
}

bool IsOver(const Job& job) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankState& member) {
    return member.report.state == TrainerState::kFinished || (HasEnded(member) && !IsLost(member));
  });
}

bool HasTrained(const RankState& trainer) {
  return trainer.report.membership.generation != Generation(0);
}

bool HasState(const Job& job, const RankState& trainer) {
  return HasTrained(trainer) && !(trainer.report.membership.generation < NewestThatCameAbout(job));
}

Generation NewestThatCameAbout(const Job& job) {
  const auto& history = job.recovery.history;
  for (auto change = history.rbegin(); change != history.rend(); ++change) {
    if (change->ended != absl::InfinitePast()) {
      return std::max(change->generation, job.recovery.started);
    }
  }
  return job.recovery.started;
}

const MembershipChange* ChangeUnderWay(const Job& job) {
  const auto& history = job.recovery.history;
  if (history.empty() || history.back().generation != job.generation) return nullptr;
  return history.back().ended == absl::InfinitePast() ? &history.back() : nullptr;
}

MembershipChange* ChangeUnderWay(Job& job) {
  return const_cast<MembershipChange*>(ChangeUnderWay(std::as_const(job)));
}

void StartSpare(Job& job, Slot slot, Moment now) {
  RankState spare;
  spare.report.id = {job.request.id, job.generation, Rank(job.recovery.next_spare++)};
  UseNode(job, slot.node);
  spare.slot = std::move(slot);
  spare.progressed = now.steady;
  job.spares.push_back(std::move(spare));
}

int WantedSpares(const Job& job) {
  if (IsOver(job)) return 0;
  int wanted = job.request.spares;
  if (job.state == JobState::kStarting) return wanted;
  wanted += static_cast<int>(std::count_if(job.ranks.begin(), job.ranks.end(),
                                           [&](const RankState& r) { return Vacates(job, r); }));
  for (const StretchedReplica& one : FindMending(job)) {
    wanted += static_cast<int>(one.outside.size());
  }
  return wanted + WantedRanks(job) - static_cast<int>(job.ranks.size());
}

bool MayStartSpares(const Job& job, Moment now) {
  const bool idle = job.state == JobState::kStarting || job.state == JobState::kRunning;
  return Recovers(job) && idle && now.steady >= job.recovery.next_spare_start &&
         ChangeUnderWay(job) == nullptr;
}

int MissingSpares(const Job& job, Moment now) {
  if (!MayStartSpares(job, now)) return 0;
  const auto there = std::count_if(job.spares.begin(), job.spares.end(),
                                   [&](const RankState& spare) { return IsUsable(job, spare); });
  return std::max(0, WantedSpares(job) - static_cast<int>(there));
}

std::optional<std::string> WhyRanksCannotMove(const Job& job) {
  if (!Recovers(job)) return "recovery.max_failures of its spec is 0";
  if (job.asked_to_stop || job.stop.has_value()) return "it is being stopped";
  if (job.checkpoints.stop_after.has_value()) return "it is saved to be stopped";
  if (job.state != JobState::kRunning && job.state != JobState::kRecovering) {
    return "it does not train yet";
  }
  return WhyNoHandOver(job);
}

JobChange RequestReplacement(Job& job, const NodeName& node, const std::string& why) {
  if (!HasTrainersOn(job, node) || WhyRanksCannotMove(job).has_value()) return JobChange::kNone;
  if (!job.recovery.vacate.emplace(node, why).second) return JobChange::kNone;
  return JobChange::kState;
}

JobChange WithdrawReplacement(Job& job, const NodeName& node) {
  return job.recovery.vacate.erase(node) > 0 ? JobChange::kState : JobChange::kNone;
}

void BeginMembership(Job& job) {
  JobRecovery& recovery = job.recovery;
  recovery.started = job.generation;
  recovery.next_spare = MostRanks(job.request);
  const int ranks = static_cast<int>(job.ranks.size());
  const bool is_as_in_spec = !IsElastic(job.request) || ranks == job.request.ranks;
  recovery.batch = is_as_in_spec ? RankBatch() : BatchOf(job, ranks);
  recovery.growth_to = recovery.give_back_to = 0;
  recovery.idle_since = absl::InfiniteFuture();
  recovery.awaited_save = 0;
  recovery.hopeless = false;
  recovery.copies = JobCopies();
  BeginCopies(job, /*restores=*/false);
}

void BeginGeneration(Job& job, NextGeneration next, Moment now) {
  JobRecovery& recovery = job.recovery;
  MembershipChange change;
  const LeaversMean mean = DecideLeaversMean(job, next);
  if (!mean.lost.empty()) absl::StrAppend(&next.reason, "; ", mean.lost);
  change.averages_first = mean.averages_first;
  change.ranks_before = static_cast<int>(job.ranks.size());
  job.generation = NextUnused(job);
  TakePlanOver(job, next.planned);
  job.ranks = std::move(next.members);
  job.spares = std::move(next.spares);
  job.leaving = std::move(next.leaving);
  AddHomes(job);
  change.generation = job.generation;
  change.reason = next.reason;
  change.begun = now.wall;
  change.ranks_after = static_cast<int>(job.ranks.size());
  change.planned = next.planned;
  if (next.restores) change.restored_step = recovery.copies.step;
  recovery.history.push_back(std::move(change));
  if (recovery.history.size() > kChangesKept) recovery.history.erase(recovery.history.begin());
  ++recovery.changes;
  const int ranks = static_cast<int>(job.ranks.size());
  recovery.batch = BatchOf(job, ranks);
  recovery.next_spare = MostRanks(job.request);
  recovery.mending.clear();
  if (!next.planned || ranks >= recovery.growth_to) recovery.growth_to = 0;
  if (ranks <= recovery.give_back_to) recovery.give_back_to = 0;
  recovery.idle_since = absl::InfiniteFuture();
  recovery.awaited_save = 0;
  BeginCopies(job, next.restores);
  recovery.trouble_since = absl::InfiniteFuture();
  recovery.deadline = absl::InfiniteFuture();
  for (RankState& member : job.ranks) {
    UseNode(job, member.slot.node);
    member.stop.reset();
    member.hands_over = member.hands_over && next.planned;
    NoteSeat(job, member, member.seat);
  }
  for (auto* part : {&job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      NoteSeat(job, trainer, -1);
      trainer.hands_over = trainer.hands_over && next.planned && !trainer.stop.has_value();
    }
  }
  if (!next.planned) {
    job.state = JobState::kRecovering;
    recovery.recovering_since = std::min(recovery.recovering_since, now.steady);
  }
  job.reason = std::move(next.reason);
  if (job.profile.has_value()) job.profile->ranks.clear();
  if (SavesCheckpoints(job.request)) CarryOverSaves(job);
}

void CompleteChange(Job& job, Moment now) {
  MembershipChange* change = ChangeUnderWay(job);
  change->ended = now.wall;
  change->step = Summarize(job, now.wall).step;
  JobRecovery& recovery = job.recovery;
  if (recovery.copies.restoring) CompleteRestore(job, *change);
  recovery.deadline = recovery.recovering_since = recovery.trouble_since = absl::InfiniteFuture();
  recovery.next_planned = now.steady + kPlannedPause;
  if (job.request.shards > 1) recovery.next_mending = now.steady + kMendingPause;
  job.former_plan.reset();
  if (change->planned) ForgetGivenBack(job);
  job.state = JobState::kRunning;
  job.reason = TrainingText(job);
  for (RankState& member : job.ranks) {
    member.progressed = now.steady;
    member.hands_over = false;
  }
  for (RankState& trainer : job.leaving) {
    if (!trainer.stop.has_value()) trainer.stop = StopOrder{StopGraceOf(job.request), now.steady};
  }
  if (!SavesCheckpoints(job.request)) return;
  job.checkpoints.settlement =
      Settlement{Generation(job.generation.value() - 1), "", now.steady + kSettlementPatience};
  PlanNextSave(job, now);
}

std::optional<absl::Duration> StopGrace(const Job& job, const RankState& trainer) {
  // A node that has lost its state must not start again what has ended.
  if (!trainer.lost.empty() || HasEnded(trainer)) return absl::ZeroDuration();
  if (job.stop.has_value()) return job.stop->grace;
  if (trainer.stop.has_value()) return trainer.stop->grace;
  return std::nullopt;
}

JobChange EndTrainersOn(Job& job, const NodeName& node, const std::string& why, Moment now) {
  bool changed = false;
  for (RankState& member : job.ranks) {
    if (member.slot.node != node || HasEnded(member) || IsLost(member)) continue;
    member.lost = why;
    member.counted = true;  // A drain is no failure.
    changed = true;
  }
  for (size_t i = job.spares.size(); i-- > 0;) {
    if (job.spares[i].slot.node != node) continue;
    RankState spare = std::move(job.spares[i]);
    job.spares.erase(job.spares.begin() + static_cast<int64_t>(i));
    Release(job, std::move(spare), absl::ZeroDuration(), now);
    changed = true;
  }
  return changed ? JobChange::kState : JobChange::kNone;
}

void Release(Job& job, RankState trainer, absl::Duration grace, Moment now) {
  trainer.stop = StopOrder{grace, now.steady + grace};
  job.leaving.push_back(std::move(trainer));
}

}  // namespace paceline
