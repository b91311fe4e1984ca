#include "cli/drill/drill_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr int kMostName = 63;

bool SavesByItself(const v1::CheckpointPolicy& checkpoint) {
  return checkpoint.every_steps() > 0 || checkpoint.every_s() > 0 || checkpoint.auto_interval();
}

// Few steps still have saves, and all is read behind them.
void ShortenCheckpoints(const DrillChanges& changes, bool keeps_ledger,
                        v1::CheckpointPolicy* checkpoint) {
  const bool saves = SavesByItself(*checkpoint);
  checkpoint->set_directory(changes.directory);
  checkpoint->set_every_s(0);
  checkpoint->set_auto_interval(false);
  checkpoint->set_every_steps(saves ? std::max<int64_t>(1, changes.steps / 6) : 0);
  checkpoint->set_keep_every(0);
  // A full disk would hold the job at its end.
  checkpoint->set_at_end(false);
  checkpoint->set_sample_ledger(keeps_ledger);
}

v1::Fault* AddChaos(v1::JobSpec* spec, v1::FaultKind kind, int rank, int64_t step, int64_t steps) {
  spec->set_allow_chaos(true);
  v1::Fault* fault = spec->add_chaos();
  fault->set_kind(kind);
  fault->set_rank(rank);
  fault->set_step(step);
  fault->set_steps(steps);
  return fault;
}

}  // namespace

absl::Status CheckForDrill(const v1::JobSpec& spec, bool own_cluster) {
  if (!spec.session()) {
    return absl::FailedPreconditionError(
        "this job is no session, and a drill is about a script's own state: give command and "
        "session: true (docs/session.md)");
  }
  if (own_cluster && spec.device() == v1::CUDA) {
    return absl::FailedPreconditionError(
        "device is cuda, and a drill's own cluster takes ranks on the CPU: give device: cpu, or "
        "--on-cluster for the cluster that other commands use");
  }
  return absl::OkStatus();
}

v1::JobSpec DrillSpec(const v1::JobSpec& spec, const DrillChanges& changes) {
  v1::JobSpec drill = spec;
  drill.set_name(absl::StrCat("drill-", spec.name()).substr(0, kMostName));
  if (changes.ranks > 0) drill.set_ranks(changes.ranks);
  drill.set_steps(changes.steps);
  drill.set_log_every(1);
  drill.clear_resume_from();
  drill.clear_chaos();
  drill.clear_tracker();
  drill.set_allow_chaos(false);
  drill.mutable_evaluation()->set_every(0);
  // With fewer ranks, or more, the steps would be others.
  if (drill.recovery().max_failures() > 0) {
    drill.mutable_recovery()->set_min_ranks(drill.ranks());
    drill.mutable_recovery()->clear_max_ranks();
  }
  if (changes.own_cluster) {
    // What only the real nodes have.
    drill.clear_placement();
    drill.clear_queue();
    drill.clear_priority();
  }
  const bool keeps_ledger = !spec.strategy().has_slipstream() && !spec.strategy().has_auto_();
  ShortenCheckpoints(changes, keeps_ledger, drill.mutable_checkpoint());
  return drill;
}

void AddFault(DrillFault fault, absl::Duration pace, const std::string& until_file,
              v1::JobSpec* spec) {
  const int rank = RankOfFault(spec->ranks());
  const int64_t step = StepOfFault(spec->steps());
  // Not in what comes after it.
  constexpr int64_t kFirstGeneration = 1;
  switch (fault) {
    case DrillFault::kKill:
      AddChaos(spec, v1::KILL, rank, step, 1)->set_generation(kFirstGeneration);
      break;
    case DrillFault::kStop:
      AddChaos(spec, v1::FREEZE, rank, step, 1)->set_generation(kFirstGeneration);
      break;
    case DrillFault::kSlow:
      AddChaos(spec, v1::SLOW, rank, step, kSlowSteps)->set_factor(kSlowFactor);
      break;
    case DrillFault::kFullDisk:
      if (spec->checkpoint().every_steps() == 0) spec->mutable_checkpoint()->set_every_steps(2);
      break;
    case DrillFault::kNone:
    case DrillFault::kDrain:
    case DrillFault::kController:
      break;
  }
  if (pace <= absl::ZeroDuration()) return;
  v1::Fault* sleep = AddChaos(spec, v1::SLEEP, /*rank=*/-1, kFirstPacedStep,
                              PacedUntil(fault, spec->steps()) - kFirstPacedStep);
  sleep->set_seconds(absl::ToDoubleSeconds(pace));
  sleep->set_until_file(until_file);
}

DrillTimeouts DrillTimeoutsOf(const v1::JobSpec& spec) {
  DrillTimeouts timeouts;
  timeouts.stall_warning = absl::Seconds(spec.stall_warning_s());
  timeouts.hang = absl::Seconds(spec.hang_timeout_s());
  timeouts.collective = absl::Seconds(spec.collective_timeout_s());
  timeouts.startup = absl::Seconds(spec.startup_timeout_s());
  timeouts.give_up = absl::Seconds(spec.give_up_s());
  return timeouts;
}

JudgedJob JudgedJobOf(const v1::JobSpec& spec) {
  JudgedJob job;
  job.steps = spec.steps();
  job.replaces = spec.recovery().max_failures() > 0;
  job.restarts = spec.max_restarts() > 0;
  job.timeouts = DrillTimeoutsOf(spec);
  const bool is_ddp =
      spec.strategy().kind_case() == v1::Strategy::KIND_NOT_SET || spec.strategy().has_ddp();
  if (!is_ddp) {
    job.losses_differ_anyway = "a rank that is lost has learnt what others do not have (strategy)";
  }
  return job;
}

}  // namespace paceline
