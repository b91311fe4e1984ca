#include "controller/core/job/job.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/blame.h"
#include "controller/core/recovery/collectives.h"
#include "controller/core/recovery/failure_budget.h"
#include "controller/core/recovery/hang.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/restart.h"

namespace paceline {
namespace {

bool All(const std::vector<RankState>& trainers, bool (*holds)(const TrainerReport&)) {
  return std::all_of(trainers.begin(), trainers.end(),
                     [holds](const RankState& trainer) { return holds(trainer.report); });
}

bool HasExited(const TrainerReport& report) { return report.state == TrainerState::kExited; }

bool AllHaveExited(const Job& job) {
  return All(job.ranks, HasExited) && All(job.spares, HasExited) && All(job.leaving, HasExited);
}

bool IsTraining(const TrainerReport& report) {
  return report.state == TrainerState::kRunning || report.state == TrainerState::kFinished ||
         report.state == TrainerState::kExited;
}

std::string DescribeFailure(const JobFailure& failure) {
  return absl::StrCat("rank ", failure.rank.value(), " on ", failure.node.value(), ": ",
                      failure.exit.message);
}

void RecordFailure(Job& job, const RankState& rank) {
  const TrainerExit& exit = *rank.report.exit;
  if (job.failure.has_value() && (!IsEcho(job.failure->exit) || IsEcho(exit))) return;
  job.failure = JobFailure{RankOf(job, rank), rank.slot.node, exit};
  job.reason = DescribeFailure(*job.failure);
}

void BeginStop(Job& job, absl::Duration grace, Moment now) {
  job.state = JobState::kStopping;
  job.stop = StopOrder{grace, now.steady + grace + kStopConfirmation};
}

// The trainers are gone, or given up; what they left on disk is to be scanned.
void EndGeneration(Job& job, Moment now) {
  job.stop.reset();
  if (job.ranks.empty()) return;
  JobCheckpoints& checkpoints = job.checkpoints;
  if (job.placed != absl::InfinitePast()) {
    checkpoints.node_time += static_cast<int64_t>(job.nodes.size()) * (now.wall - job.placed);
  }
  if (!SavesCheckpoints(job.request)) return;
  if (IsOrderPending(job)) {
    FailOrder(job, checkpoints.order->number, "the ranks ended before it was complete");
  }
  checkpoints.stop_after.reset();
  LeaveSavesElsewhere(job);
  checkpoints.saves.clear();
  checkpoints.forgotten_step = 0;
  checkpoints.next_save = checkpoints.next_save_wall = absl::InfiniteFuture();
  checkpoints.settlement = Settlement{NewestUsed(job), "", now.steady + kSettlementPatience};
}

// Forgets the trainers beside the members: none is wanted any more.
void DropOthers(Job& job) {
  job.spares.clear();
  job.leaving.clear();
  job.recovery.vacate.clear();
  job.recovery.avoid.clear();
  job.recovery.waiting_drains.clear();
  job.recovery.wake = job.recovery.recovering_since = job.recovery.deadline =
      absl::InfiniteFuture();
}

// Forgets what is long and of no use once all is over: the last lines of the failed rank are in
// job.failure, those of all ranks in the logs on their nodes.
void ForgetDetails(Job& job) {
  for (RankState& rank : job.ranks) {
    rank.report.saves = std::vector<SaveStatus>();
    if (rank.report.exit.has_value()) rank.report.exit->log_tail = std::string();
  }
}

void End(Job& job, JobState state, Moment now) {
  EndGeneration(job, now);
  DropOthers(job);
  ForgetDetails(job);
  job.state = state;
  job.ended = now.wall;
}

// Puts the job back into the queue, for its next generation.
void Requeue(Job& job, Moment now) {
  EndGeneration(job, now);
  DropOthers(job);
  job.state = JobState::kQueued;
  job.reason = job.restart_reason;
  job.requeue = false;
  job.placed = job.started = absl::InfinitePast();
  job.ranks.clear();
  job.failure.reset();
  if (job.profile.has_value()) job.profile->ranks.clear();
}

void BeginTraining(Job& job, Moment now) {
  job.state = JobState::kRunning;
  job.started = now.wall;
  job.reason = TrainingText(job);
  // A checkpoint that once could not be used has proved usable.
  Checkpoint* used =
      SavesCheckpoints(job.request) ? FindByDirectory(job, job.restored_from) : nullptr;
  if (used != nullptr && used->state == CheckpointState::kDamaged) {
    used->state = CheckpointState::kComplete;
    used->reason.clear();
  }
  PlanNextSave(job, now);
}

// Counts a failure before all ranks trained, although it is not recovered from.
void CountAtStart(Job& job, Moment now) {
  if (!Recovers(job)) return;
  const int r = job.failure->rank.value();
  if (r < 0 || r >= static_cast<int>(job.ranks.size())) return;
  CountLoss(job, job.ranks[static_cast<size_t>(r)], now);
}

// Ends a job that was stopping.
void EndStopped(Job& job, Moment now) {
  if (job.failure.has_value() && IsEcho(job.failure->exit)) {
    if (auto stuck = FindStuckRank(job.ranks, *job.failure); stuck.has_value()) {
      job.failure = std::move(stuck);
      job.reason = DescribeFailure(*job.failure);
    }
  }
  TakeLastCollectives(job, now);
  if (job.requeue && !job.asked_to_stop) return Requeue(job, now);
  if (!job.failure.has_value()) return End(job, JobState::kCancelled, now);
  CountAtStart(job, now);
  if (DecideRestart(job)) return Requeue(job, now);
  End(job, JobState::kFailed, now);
}

JobChange TickSettlement(Job& job, Moment now) {
  auto& settlement = job.checkpoints.settlement;
  if (!settlement.has_value() || now.steady < settlement->deadline) return JobChange::kNone;
  settlement->deadline = absl::InfiniteFuture();
  return JobChange::kProgress;
}

bool HasLost(const Job& job) { return std::any_of(job.ranks.begin(), job.ranks.end(), IsLost); }

// Draws the conclusions for the job after its ranks changed.
void Advance(Job& job, Moment now) {
  if (job.ended_already() || job.state == JobState::kQueued) return;
  if (job.state != JobState::kStopping) {
    if (Recovers(job) && job.state != JobState::kStarting && HasLost(job)) return;  // recovery.h
    for (const RankState& rank : job.ranks) {
      if (HasFailed(rank)) RecordFailure(job, rank);
    }
    if (job.failure.has_value()) {
      AskLastCollectives(job, now);
      BeginStop(job, kFailureGrace, now);
    }
  } else if (job.failure.has_value()) {
    for (const RankState& rank : job.ranks) {
      if (HasFailed(rank)) RecordFailure(job, rank);
    }
  }
  if (job.state == JobState::kStopping) {
    if (AllHaveExited(job)) EndStopped(job, now);
  } else if (All(job.ranks, HasExited)) {
    End(job, JobState::kSucceeded, now);
    job.collectives = JobCollectives();
    job.reason = "all ranks finished";
  } else if (job.state == JobState::kStarting && All(job.ranks, IsTraining)) {
    BeginTraining(job, now);
  }
}

// Puts replicas of a node next to each other, and nodes of a rack; without shards, ranks.
void SortByHome(std::vector<Slot>& slots, int shards) {
  std::map<std::string, size_t> racks;
  std::map<NodeName, size_t> nodes;
  for (const Slot& slot : slots) {
    racks.emplace(slot.rack, racks.size());
    nodes.emplace(slot.node, nodes.size());
  }
  std::vector<std::vector<Slot>> replicas;
  for (size_t r = 0; r < slots.size(); ++r) {
    if (r % static_cast<size_t>(shards) == 0) replicas.emplace_back();
    replicas.back().push_back(std::move(slots[r]));
  }
  const auto home = [&](const std::vector<Slot>& replica) {
    return std::make_pair(racks[replica[0].rack], nodes[replica[0].node]);
  };
  std::stable_sort(replicas.begin(), replicas.end(),
                   [&](const auto& a, const auto& b) { return home(a) < home(b); });
  slots.clear();
  for (std::vector<Slot>& replica : replicas) {
    std::move(replica.begin(), replica.end(), std::back_inserter(slots));
  }
}

bool ShowsProgress(const TrainerReport& before, const TrainerReport& after) {
  return !(before.membership == after.membership) || before.suspended != after.suspended ||
         before.stacks_file != after.stacks_file || before.progress.step != after.progress.step ||
         before.progress.phase != after.progress.phase ||
         before.progress.evaluated_batches != after.progress.evaluated_batches ||
         before.state != after.state || before.pid != after.pid ||
         before.standby != after.standby || before.collectives.wanted != after.collectives.wanted ||
         before.figures.details != after.figures.details;
}

// Whether the reports differ in something that must survive the controller.
bool ShowsState(const TrainerReport& before, const TrainerReport& after) {
  const auto joined = [](const TrainerReport& r) { return r.membership.generation; };
  return before.state != after.state || before.pid != after.pid || !(before.plan == after.plan) ||
         before.profile.details != after.profile.details || joined(before) != joined(after);
}

// What the difference between two successive reports means, if neither the job's state nor its
// store's address changes. Thousands of members change one after another, and one alone, unless it
// is lost, changes no plan but its own node's (membership.h and saving.h say themselves what else
// does). Starts are not stored, as their nodes report them to a new controller; ends are, as the
// node may be gone by then. docs/decisions/0028-what-one-rank-changes.md.
JobChange ChangeByOne(JobState state, bool is_member, const TrainerReport& before,
                      const TrainerReport& after) {
  if (!ShowsState(before, after)) {
    return ShowsProgress(before, after) ? JobChange::kProgress : JobChange::kNone;
  }
  // The job looks at a loss before anything else can take the place.
  const bool is_lost = after.exit.has_value() && after.exit->failure != FailureKind::kNone &&
                       (state == JobState::kRunning || state == JobState::kRecovering);
  if (!is_member || is_lost) return JobChange::kState;
  const bool starts = state == JobState::kStarting && after.state != TrainerState::kExited;
  return starts ? JobChange::kProgress : JobChange::kTrainer;
}

}  // namespace

TrainerExit LostExit(const TrainerReport& last, const std::string& why) {
  TrainerExit exit;
  exit.failure = FailureKind::kLost;
  exit.message = why;
  exit.step = last.progress.step;
  exit.phase = last.progress.phase;
  exit.in_phase = last.progress.in_phase;
  return exit;
}

Generation NewestUsed(const Job& job) { return std::max(job.generation, job.generations_used); }

Generation NextUnused(const Job& job) { return Generation(NewestUsed(job).value() + 1); }

Job NewJob(JobRequest request, int64_t number, Moment now) {
  Job job;
  job.request = std::move(request);
  job.number = number;
  job.plan.strategy = job.request.strategy_spec;
  job.plan.ladder = job.request.strategy.ladder;
  job.plan.slipstream = job.request.strategy.slipstream;
  job.start.directory = job.origin = job.request.resume_from;
  job.created = now.wall;
  job.placed = job.started = job.ended = absl::InfinitePast();
  return job;
}

std::string StartReason(const Job& job) {
  return job.restart_reason.empty() ? "trainers start"
                                    : absl::StrCat(job.restart_reason, "; trainers start");
}

void PlaceJob(Job& job, std::vector<Slot> slots, Moment now) {
  SortByHome(slots, job.request.shards);
  job.state = JobState::kStarting;
  job.reason = StartReason(job);
  job.placed = now.wall;
  TakeStart(job);
  job.generation = NextUnused(job);
  job.ranks.clear();
  job.nodes.clear();
  for (const Slot& slot : slots) job.nodes.push_back(slot.node);
  std::sort(job.nodes.begin(), job.nodes.end());
  job.nodes.erase(std::unique(job.nodes.begin(), job.nodes.end()), job.nodes.end());
  for (size_t r = 0; r < slots.size(); ++r) {
    RankState rank;
    rank.slot = slots[r];
    rank.report.id = {job.request.id, job.generation, Rank(static_cast<int>(r))};
    rank.seat = static_cast<int>(r);
    NoteSeat(job, rank, rank.seat);
    job.ranks.push_back(std::move(rank));
  }
  job.homes = std::move(slots);
  BeginMembership(job);
  job.collectives = JobCollectives();
}

JobChange ApplyReport(Job& job, const NodeName& node, const TrainerReport& report, Moment now) {
  RankState* const found = job.ended_already() ? nullptr : FindTrainer(job, report.id);
  if (found == nullptr || found->slot.node != node || HasExited(found->report)) {
    return JobChange::kNone;
  }
  RankState& rank = *found;
  const bool may_change_address = found->report.state != report.state ||
                                  found->report.pid != report.pid ||
                                  found->report.store_address != report.store_address;
  const std::string address_before = may_change_address ? StoreAddress(job) : "";
  const TrainerReport before = std::exchange(rank.report, report);
  // A node that lost its state starts the trainer anew, while its peers are steps ahead.
  if (before.pid != 0 && report.pid != 0 && before.pid != report.pid) {
    rank.report.state = TrainerState::kExited;
    rank.report.exit = LostExit(before, "the node lost the running trainer and started another");
  }
  if (HasExited(rank.report) && !rank.report.exit.has_value()) {
    rank.report.exit = LostExit(before, "the node reported an end without saying which");
  }
  NoteProgress(rank, before, now);
  bool evaluated = false;
  if (report.evaluation.has_value() &&
      (!job.evaluation.has_value() || job.evaluation->step < report.evaluation->step)) {
    job.evaluation = report.evaluation;
    evaluated = true;
  }
  rank.report.artifacts.clear();
  const TrainerReport after = rank.report;  // A copy, as a restart leaves no ranks.
  const JobState state = job.state;
  const Rank seat = RankOf(job, rank);
  const bool is_member = seat != Rank(-1);
  const bool made = TakeArtifacts(job.artifacts, seat, node, report.artifacts);
  JobChange change = made ? JobChange::kTrainer : JobChange::kNone;
  if (is_member) {
    change = std::max(change, TakeSaves(job, rank, now));
    change = std::max(change, TakeRequestToEnd(job, rank, now));
  }
  change = std::max(change, StopIfSaved(job, now));
  // In a job that goes on as before, nothing follows from a member that does.
  const bool goes_on = is_member && before.state == after.state && job.state == state &&
                       (state == JobState::kRunning || state == JobState::kRecovering);
  if (!goes_on) Advance(job, now);
  if (job.state != state || evaluated) return JobChange::kState;
  if (may_change_address && StoreAddress(job) != address_before) return JobChange::kState;
  if (QuietTime(job, before) != QuietTime(job, after)) {
    change = std::max(change, JobChange::kProgress);
  }
  return std::max(change, ChangeByOne(state, is_member, before, after));
}

JobChange LoseNode(Job& job, const NodeName& node, const std::string& why, Moment now) {
  if (job.ended_already()) return JobChange::kNone;
  bool changed = false;
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      if (trainer.slot.node != node || HasExited(trainer.report)) continue;
      trainer.report.exit = LostExit(trainer.report, why);
      trainer.report.state = TrainerState::kExited;
      changed = true;
    }
  }
  if (!changed) return JobChange::kNone;
  Advance(job, now);
  return JobChange::kState;
}

JobChange CancelJob(Job& job, const std::string& reason, absl::Duration grace, Moment now) {
  if (job.ended_already()) return JobChange::kNone;
  const bool sooner = job.stop.has_value() && grace < job.stop->grace;
  if (sooner) BeginStop(job, grace, now);
  if (job.asked_to_stop) return sooner ? JobChange::kState : JobChange::kNone;
  job.asked_to_stop = true;
  if (job.state == JobState::kStopping) return JobChange::kState;  // So it will not be restarted.
  job.reason = reason;
  if (job.state == JobState::kQueued) {
    End(job, JobState::kCancelled, now);
  } else {
    BeginStop(job, grace, now);
  }
  return JobChange::kState;
}

JobChange RequeueJob(Job& job, const std::string& reason, absl::Duration grace, Moment now) {
  if (job.state != JobState::kStarting && job.state != JobState::kRunning &&
      job.state != JobState::kRecovering) {
    return JobChange::kNone;
  }
  job.requeue = true;
  job.reason = job.restart_reason = reason;
  BeginStop(job, grace, now);
  return JobChange::kState;
}

JobChange TickJob(Job& job, Moment now) {
  const JobChange change =
      std::max({StopIfSaved(job, now), TickSaving(job, now), TickSettlement(job, now)});
  if (!job.stop.has_value() || now.steady < job.stop->deadline) return change;
  for (RankState& rank : job.ranks) {
    if (HasExited(rank.report)) continue;
    rank.report.exit = LostExit(
        rank.report, absl::StrCat("node ", rank.slot.node.value(),
                                  " does not answer: what became of the trainer is unknown"));
    rank.report.state = TrainerState::kExited;
    if (job.failure.has_value()) RecordFailure(job, rank);
  }
  EndStopped(job, now);
  return JobChange::kState;
}

void StopForFailure(Job& job, JobFailure failure, std::string reason, Moment now) {
  job.failure = std::move(failure);
  job.reason = std::move(reason);
  BeginStop(job, kFailureGrace, now);
  if (AllHaveExited(job)) EndStopped(job, now);
}

absl::Time NextDeadline(const Job& job) {
  if (job.stop.has_value()) return job.stop->deadline;
  const absl::Time settled = job.checkpoints.settlement.has_value()
                                 ? job.checkpoints.settlement->deadline
                                 : absl::InfiniteFuture();
  // A queued or ended job has no members to see to (cluster_membership.cc).
  const absl::Time wake = job.holds_slots() ? job.recovery.wake : absl::InfiniteFuture();
  return std::min({StopDeadline(job), settled, NextSaveDeadline(job), wake});
}

std::string StoreAddress(const Job& job) {
  const bool all_ready = All(job.ranks, [](const TrainerReport& report) {
    return report.state != TrainerState::kStarting && !report.store_address.empty();
  });
  return all_ready && !job.ranks.empty() ? job.ranks.front().report.store_address : "";
}

std::string WhyNoSlipstream(const Job& job) {
  for (const RankState& rank : job.ranks) {
    if (!rank.report.no_slipstream.empty()) return rank.report.no_slipstream;
  }
  return "";
}

}  // namespace paceline
