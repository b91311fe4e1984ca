#include "controller/wire/convert.h"

#include <algorithm>
#include <map>
#include <optional>

#include "common/core/ladder.h"
#include "common/job_spec/training_plan.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/job/plan.h"
#include "controller/core/job/profile.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/wire/convert_artifact.h"
#include "controller/wire/convert_checkpoint.h"
#include "controller/wire/convert_collectives.h"
#include "controller/wire/convert_membership.h"
#include "controller/wire/convert_plan.h"

namespace paceline {
namespace {

v1::Progress ToProto(const Progress& progress) {
  v1::Progress out;
  out.set_step(progress.step);
  out.set_phase(static_cast<v1::Phase>(progress.phase));
  out.set_phase_s(absl::ToDoubleSeconds(progress.in_phase));
  out.set_loss(progress.loss);
  out.set_step_s(absl::ToDoubleSeconds(progress.step_time));
  out.set_samples_per_s(progress.samples_per_second);
  out.set_evaluated_batches(progress.evaluated_batches);
  out.set_evaluation_batches(progress.evaluation_batches);
  out.set_collectives(progress.collectives);
  return out;
}

v1::EvaluationResult ToProto(const Evaluation& evaluation) {
  v1::EvaluationResult out;
  out.set_step(evaluation.step);
  if (evaluation.accuracy.has_value()) out.set_accuracy(*evaluation.accuracy);
  out.set_loss(evaluation.loss);
  out.set_samples(evaluation.samples);
  return out;
}

v1::TrainerExit ToProto(const TrainerExit& exit) {
  v1::TrainerExit out;
  out.set_failure(static_cast<v1::FailureKind>(exit.failure));
  out.set_exit_code(exit.exit_code);
  out.set_signal(exit.signal);
  out.set_message(exit.message);
  out.set_step(exit.step);
  out.set_phase(static_cast<v1::Phase>(exit.phase));
  out.set_phase_s(absl::ToDoubleSeconds(exit.in_phase));
  out.set_log_tail(exit.log_tail);
  return out;
}

// Core's trainer states have the wire's numbers without UNSPECIFIED.
v1::TrainerState ToProto(TrainerState state) {
  return static_cast<v1::TrainerState>(static_cast<int>(state) + 1);
}

v1::PlanStatus ToProto(const PlanStatus& plan) {
  v1::PlanStatus out;
  out.set_prepared_version(plan.prepared.value());
  out.set_active_version(plan.active.value());
  out.set_active_since_step(plan.active_since_step);
  out.set_failed_version(plan.failed.value());
  out.set_error(plan.error);
  return out;
}

v1::JobPlan ToProto(const JobPlan& plan, const ActivePlan& active) {
  v1::JobPlan out;
  out.set_version(plan.version.value());
  out.mutable_strategy()->ParseFromString(plan.strategy);
  out.set_active_version(active.version.value());
  out.set_active_since_step(active.since_step);
  return out;
}

v1::MembershipStatus ToProto(const MembershipStatus& status) {
  v1::MembershipStatus out;
  out.set_generation(status.generation.value());
  out.set_waiting(status.waiting);
  out.set_error(status.error);
  out.set_step(status.step);
  out.set_ready_generation(status.ready.value());
  out.set_left_generation(status.left.value());
  out.set_can_hand_over(status.can_hand_over);
  out.set_can_keep_copies(status.can_keep_copies);
  out.set_can_average_first(status.can_average_first);
  if (!(status.copies == CopyStatus())) {
    const CopyStatus& copies = status.copies;
    out.mutable_copies()->set_generation(copies.generation.value());
    out.mutable_copies()->set_copied_step(copies.copied_step);
    out.mutable_copies()->set_settled_step(copies.settled_step);
    out.mutable_copies()->set_error(copies.error);
    out.mutable_copies()->set_steps_lost(copies.steps_lost);
    out.mutable_copies()->set_failed_step(copies.failed_step);
  }
  return out;
}

v1::ProfileRequest ToRequest(const JobProfile& profile) {
  v1::ProfileRequest out;
  out.set_id(profile.id);
  out.set_first_step(profile.first_step);
  out.set_steps(profile.steps);
  out.set_memory(profile.memory);
  return out;
}

v1::JobProfile ToProto(const JobProfile& profile) {
  v1::JobProfile out;
  *out.mutable_request() = ToRequest(profile);
  for (const Rank rank : profile.ranks) out.add_ranks(rank.value());
  return out;
}

v1::TrainingPlan PlanOf(const Job& job) {
  v1::Strategy strategy;
  strategy.ParseFromString(job.plan.strategy);
  return MakeTrainingPlan(job.plan.version.value(), strategy, HomesOf(job), FilledSeats(job),
                          job.request.shards);
}

// Where the rank is among the job's ranks on its node, and the node among the job's nodes.
v1::LocalRanks LocalRanksOf(const Job& job, int rank) {
  v1::LocalRanks local;
  const NodeName& own = job.ranks[static_cast<size_t>(rank)].slot.node;
  std::vector<NodeName> nodes;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const Slot& slot = job.ranks[r].slot;
    if (std::find(nodes.begin(), nodes.end(), slot.node) == nodes.end()) {
      nodes.push_back(slot.node);
    }
    if (slot.node != own) continue;
    if (static_cast<int>(r) == rank) local.set_index(local.slots_size());
    local.add_slots(slot.number);
  }
  local.set_node(static_cast<int>(std::find(nodes.begin(), nodes.end(), own) - nodes.begin()));
  local.set_nodes(static_cast<int>(nodes.size()));
  local.set_restarts(job.restarts);
  return local;
}

static_assert(static_cast<int>(FailureKind::kRestore) == v1::FAILURE_RESTORE);
static_assert(static_cast<int>(TrainerState::kExited) + 1 == v1::TRAINER_EXITED);
static_assert(static_cast<int>(JobState::kRecovering) + 1 == v1::RECOVERING);

v1::JobOrigin ToOrigin(const std::string& directory) {
  v1::JobOrigin out;
  out.set_directory(directory);
  if (const auto saved = ParseDirectory(directory); saved.has_value()) {
    out.set_job(saved->job.value());
    out.set_step(saved->key.step);
    out.set_generation(saved->key.generation);
  }
  return out;
}

}  // namespace

v1::Rank ToProto(int r, const RankState& rank) {
  v1::Rank out;
  const TrainerReport& report = rank.report;
  out.set_rank(r);
  out.set_node(rank.slot.node.value());
  out.set_slot(rank.slot.number);
  out.set_pid(report.pid);
  out.set_state(ToProto(report.state));
  *out.mutable_progress() = ToProto(report.progress);
  if (report.exit.has_value()) *out.mutable_exit() = ToProto(*report.exit);
  if (!(report.plan == PlanStatus())) *out.mutable_plan() = ToProto(report.plan);
  if (!report.figures.details.empty()) {
    out.mutable_figures()->ParseFromString(report.figures.details);
  }
  if (report.profile.id != 0) out.mutable_profile()->ParseFromString(report.profile.details);
  if (!(report.membership == MembershipStatus())) {
    *out.mutable_membership() = ToProto(report.membership);
  }
  out.set_started_generation(report.id.generation.value());
  out.set_started_rank(report.id.rank.value());
  out.set_standby(report.standby);
  if (const auto heard = LastHeard(rank); heard.has_value()) *out.mutable_last_heard() = *heard;
  return out;
}

std::optional<google::protobuf::Timestamp> LastHeard(const RankState& rank) {
  const bool unreachable =
      rank.unreachable_since != absl::InfiniteFuture() && !rank.report.exit.has_value();
  if (!unreachable || rank.heard_wall == absl::InfinitePast()) return std::nullopt;
  return ToProto(rank.heard_wall);
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp out;
  const int64_t nanos = absl::ToUnixNanos(time);
  out.set_seconds(nanos / 1000000000);
  out.set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return out;
}

v1::TrainerId ToProto(const TrainerId& id) {
  v1::TrainerId out;
  out.set_job_id(id.job.value());
  out.set_generation(id.generation.value());
  out.set_rank(id.rank.value());
  return out;
}

v1::JobState ToProto(JobState state) {
  return static_cast<v1::JobState>(static_cast<int>(state) + 1);
}

v1::Job ToProto(const Job& job, absl::Time wall_now) {
  v1::Job out;
  out.set_id(job.request.id.value());
  out.mutable_spec()->ParseFromString(job.request.spec);
  out.set_state(ToProto(job.state));
  out.set_reason(job.reason);
  *out.mutable_create_time() = ToProto(job.created);
  if (job.started != absl::InfinitePast()) *out.mutable_start_time() = ToProto(job.started);
  if (job.ended != absl::InfinitePast()) *out.mutable_end_time() = ToProto(job.ended);
  out.set_generation(job.generation.value());
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    *out.add_ranks() = ToProto(static_cast<int>(r), job.ranks[r]);
  }
  for (const RankState& spare : job.spares) *out.add_spares() = ToProto(-1, spare);
  for (const MembershipChange& change : job.recovery.history) {
    *out.add_membership_changes() = ToProto(change);
  }
  if (job.failure.has_value()) {
    out.mutable_failure()->set_rank(job.failure->rank.value());
    out.mutable_failure()->set_node(job.failure->node.value());
    *out.mutable_failure()->mutable_exit() = ToProto(job.failure->exit);
  }
  const JobProgress progress = Summarize(job, wall_now);
  out.mutable_progress()->set_step(progress.step);
  out.mutable_progress()->set_loss(progress.loss);
  out.mutable_progress()->set_samples_per_s(progress.samples_per_second);
  out.mutable_progress()->set_training_s(absl::ToDoubleSeconds(progress.training));
  out.mutable_progress()->set_tokens_per_s(progress.tokens_per_second);
  if (progress.mfu.has_value()) out.mutable_progress()->set_mfu(*progress.mfu);
  out.mutable_progress()->set_flops_per_s(progress.flops_per_second);
  out.mutable_progress()->set_flops_source(
      static_cast<v1::FlopsSource>(static_cast<int>(progress.flops_source)));
  if (job.evaluation.has_value()) *out.mutable_evaluation() = ToProto(*job.evaluation);
  *out.mutable_plan() = ToProto(job.plan, FindActivePlan(job));
  if (job.profile.has_value()) *out.mutable_profile() = ToProto(*job.profile);
  if (SavesCheckpoints(job.request) || !job.checkpoints.last_error.empty()) {
    *out.mutable_checkpoints() = SummarizeCheckpoints(job);
  }
  out.set_restarts(job.restarts);
  out.set_restart_reason(job.restart_reason);
  out.set_restored_from(job.restored_from);
  if (!job.origin.empty()) *out.mutable_made_from() = ToOrigin(job.origin);
  out.set_submitter(job.submitter);
  SetCollectives(job.collectives, out);
  SetArtifacts(job.artifacts, out);
  if (HasCopies(job) && job.holds_slots()) *out.mutable_copies() = CopiesToProto(job);
  return out;
}

v1::NodePlan ToProto(const std::vector<PlannedTrainer>& plan,
                     const std::vector<CheckpointTask>& tasks) {
  v1::NodePlan out;
  for (const CheckpointTask& task : tasks) *out.add_tasks() = ToProto(task);
  std::map<JobId, v1::TrainingPlan> training_plans;
  for (const PlannedTrainer& trainer : plan) {
    const Job& job = *trainer.job;
    const auto [training_plan, added_plan] = training_plans.try_emplace(job.request.id);
    if (added_plan && HasEngine(job.request)) training_plan->second = PlanOf(job);
    v1::TrainerPlan& added = *out.add_trainers();
    *added.mutable_id() = ToProto(trainer.id);
    added.mutable_spec()->ParseFromString(job.request.spec);
    added.set_world_size(static_cast<int>(job.ranks.size()));
    if (HasEngine(job.request)) *added.mutable_plan() = training_plan->second;
    if (IsProfiled(job, trainer.membership.rank))
      *added.mutable_profile() = ToRequest(*job.profile);
    added.set_slot(trainer.slot);
    added.set_store_address(trainer.store_address);
    if (trainer.stop_grace.has_value()) {
      added.mutable_stop()->set_grace_s(absl::ToDoubleSeconds(*trainer.stop_grace));
    }
    if (trainer.restores) added.set_restore_from(job.restored_from);
    if (SavesCheckpoints(job.request)) {
      *added.mutable_checkpoints() = CheckpointPlanFor(job, trainer.membership.rank);
    }
    *added.mutable_membership() = ToProto(trainer.membership);
    if ((!HasEngine(job.request) || trainer.restores) && trainer.membership.rank.value() >= 0) {
      *added.mutable_local() = LocalRanksOf(job, trainer.membership.rank.value());
    }
    added.set_save_stacks(trainer.save_stacks);
    added.set_collectives_wanted(job.collectives.wanted);
    added.set_leased(trainer.leased);
  }
  return out;
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

TrainerId FromProto(const v1::TrainerId& id) {
  return {JobId(id.job_id()), Generation(id.generation()), Rank(id.rank())};
}

TrainerState FromProto(v1::TrainerState state) {
  if (state <= v1::TRAINER_STATE_UNSPECIFIED || state > v1::TRAINER_EXITED) {
    return TrainerState::kStarting;
  }
  return static_cast<TrainerState>(state - 1);
}

JobState FromProto(v1::JobState state) {
  if (state <= v1::JOB_STATE_UNSPECIFIED || state > v1::RECOVERING) return JobState::kQueued;
  return static_cast<JobState>(state - 1);
}

Progress FromProto(const v1::Progress& progress) {
  return {progress.step(),
          v1::Phase_IsValid(progress.phase()) ? static_cast<int>(progress.phase()) : 0,
          absl::Seconds(progress.phase_s()),
          progress.loss(),
          absl::Seconds(progress.step_s()),
          progress.samples_per_s(),
          progress.evaluated_batches(),
          progress.evaluation_batches(),
          progress.collectives()};
}

Evaluation FromProto(const v1::EvaluationResult& evaluation) {
  return {evaluation.step(),
          evaluation.has_accuracy() ? std::optional<double>(evaluation.accuracy()) : std::nullopt,
          evaluation.loss(), evaluation.samples()};
}

PlanStatus FromProto(const v1::PlanStatus& plan) {
  return {PlanVersion(plan.prepared_version()), PlanVersion(plan.active_version()),
          plan.active_since_step(), PlanVersion(plan.failed_version()), plan.error()};
}

Figures FromProto(const v1::RankFigures& figures) {
  Figures out{figures.tokens_per_s(),
              figures.has_mfu() ? std::optional<double>(figures.mfu()) : std::nullopt,
              figures.SerializeAsString()};
  out.flops_per_second = figures.flops_per_s();
  if (v1::FlopsSource_IsValid(figures.flops_source())) {  // A newer worker may know others.
    out.flops_source = static_cast<FlopsSource>(static_cast<int>(figures.flops_source()));
  }
  if (figures.has_slipstream()) {
    const v1::SlipstreamFigures& slipstream = figures.slipstream();
    out.rounds = RoundFigures{slipstream.stretched_rounds(), slipstream.round_collective_s(),
                              slipstream.round_copies_s()};
  }
  return out;
}

ProfileResult FromProto(const v1::ProfileResult& profile) {
  return {profile.id(), profile.SerializeAsString()};
}

JobProfile FromProto(const v1::JobProfile& profile) {
  JobProfile out;
  out.id = profile.request().id();
  out.first_step = profile.request().first_step();
  out.steps = profile.request().steps();
  out.memory = profile.request().memory();
  for (const int rank : profile.ranks()) out.ranks.emplace_back(rank);
  return out;
}

TrainerExit FromProto(const v1::TrainerExit& exit) {
  TrainerExit out;
  out.failure = v1::FailureKind_IsValid(exit.failure()) ? static_cast<FailureKind>(exit.failure())
                                                        : FailureKind::kError;
  out.exit_code = exit.exit_code();
  out.signal = exit.signal();
  out.message = exit.message();
  out.step = exit.step();
  out.phase = v1::Phase_IsValid(exit.phase()) ? static_cast<int>(exit.phase()) : 0;
  out.in_phase = absl::Seconds(exit.phase_s());
  out.log_tail = exit.log_tail();
  return out;
}

std::vector<TrainerReport> FromProto(const v1::NodeReport& report) {
  std::vector<TrainerReport> trainers;
  for (const v1::TrainerReport& trainer : report.trainers()) {
    TrainerReport& out = trainers.emplace_back();
    out.id = FromProto(trainer.id());
    out.state = FromProto(trainer.state());
    out.pid = trainer.pid();
    out.store_address = trainer.store_address();
    out.progress = FromProto(trainer.progress());
    if (trainer.has_evaluation()) out.evaluation = FromProto(trainer.evaluation());
    if (trainer.has_exit()) out.exit = FromProto(trainer.exit());
    out.plan = FromProto(trainer.plan());
    if (trainer.has_figures()) out.figures = FromProto(trainer.figures());
    if (trainer.has_profile()) out.profile = FromProto(trainer.profile());
    out.saves = FromProto(trainer.saves());
    out.blocked = BlockedTime(trainer.checkpoints());
    out.asked_to_end = trainer.asked_to_end();
    out.membership = FromProto(trainer.membership());
    out.suspended = trainer.suspended();
    out.stacks_file = trainer.stacks_file();
    out.no_slipstream = trainer.no_slipstream();
    out.standby = trainer.standby();
    out.artifacts = FromProto(trainer.artifacts());
    if (trainer.has_collectives()) out.collectives = FromProto(trainer.collectives());
  }
  return trainers;
}

v1::JobHistoryEvent ToProto(const JobLifeEvent& event) {
  v1::JobHistoryEvent out;
  out.set_id(event.id);
  *out.mutable_time() = ToProto(event.time);
  out.set_kind(static_cast<v1::JobEventKind>(static_cast<int>(event.kind) + 1));
  out.set_state(ToProto(event.state));
  out.set_generation(event.generation.value());
  out.set_step(event.step);
  out.set_warning(event.warning);
  out.set_what(event.what);
  return out;
}

JobLifeEvent FromProto(const v1::JobHistoryEvent& event) {
  const bool known = event.kind() >= v1::EVENT_STATE && event.kind() <= v1::EVENT_LABELS;
  JobLifeEvent out;
  out.id = event.id();
  out.time = FromProto(event.time());
  out.kind = known ? static_cast<JobEventKind>(event.kind() - 1) : JobEventKind::kState;
  out.state = FromProto(event.state());
  out.generation = Generation(event.generation());
  out.step = event.step();
  out.warning = event.warning();
  out.what = event.what();
  return out;
}

}  // namespace paceline
