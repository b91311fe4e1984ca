#include "controller/core/recovery/restart.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/checkpoint_key.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/failure_budget.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// The newest complete checkpoint that was made before `key`.
const Checkpoint* CompleteBefore(const Job& job, const CheckpointKey& key) {
  const Checkpoint* before = nullptr;
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    const bool older = std::tie(checkpoint.key.generation, checkpoint.key.step) <
                       std::tie(key.generation, key.step);
    if (older && checkpoint.state == CheckpointState::kComplete) before = &checkpoint;
  }
  return before;
}

std::string HowToGoOn(const Job& job, const Checkpoint* older) {
  if (older == nullptr) return "there is no older one to go on from";
  return absl::StrCat("to go on from the one before, run paceline job resume ",
                      job.request.id.value(), " --from ", job.request.id.value(), "/",
                      older->key.step, ".g", older->key.generation,
                      ", or submit jobs with checkpoint.on_damage: previous");
}

// Why the job cannot start from this directory, as far as its records say; nothing is known of
// directories that are not its own.
std::string WhyUnusable(const Job& job, const std::string& directory) {
  if (!SavesCheckpoints(job.request)) return "";
  const Checkpoint* own = FindByDirectory(job, directory);
  const bool is_own = absl::StartsWith(directory, absl::StrCat(JobDirectory(job.request), "/"));
  if (own == nullptr && !is_own) return "";
  if (own == nullptr || own->state == CheckpointState::kDeleting) return "deleted";
  return own->state == CheckpointState::kDamaged ? "damaged" : "";
}

// Whether one of the job's own checkpoints is, or was, in this directory.
bool IsOwn(const Job& job, const std::string& directory) {
  const std::optional<SavedBy> saved = ParseDirectory(directory);
  return saved.has_value() && saved->job == job.request.id;
}

bool IsToStop(const Job& job) {
  const auto& stop = job.checkpoints.stop_after;
  return job.asked_to_stop || (stop.has_value() && !stop->requeue);
}

// Handles that the checkpoint from which the generation was to start could not be used.
bool DecideAfterDamage(Job& job) {
  if (job.restored_from.empty()) return false;
  Checkpoint* used =
      SavesCheckpoints(job.request) ? FindByDirectory(job, job.restored_from) : nullptr;
  if (used == nullptr) {  // It is another job's, or was named by its path.
    absl::StrAppend(&job.reason, "; the checkpoint ", job.restored_from, " cannot be used");
    return false;
  }
  used->state = CheckpointState::kDamaged;
  used->reason = job.reason;
  const Checkpoint* older = CompleteBefore(job, used->key);
  if (IsToStop(job) || !job.request.checkpoints.previous_on_damage || older == nullptr) {
    absl::StrAppend(&job.reason, "; the checkpoint ", job.restored_from,
                    " cannot be used: ", HowToGoOn(job, older));
    return false;
  }
  job.start = {DirectoryOf(job, *older), NextUnused(job)};
  job.restart_reason = absl::StrCat("goes on from ", job.start.directory, ", since ",
                                    job.restored_from, " cannot be used: ", job.reason);
  return true;
}

}  // namespace

std::string ChooseStart(const Job& job) {
  const Checkpoint* newest = NewestComplete(job, job.start.since);
  return newest != nullptr ? DirectoryOf(job, *newest) : job.start.directory;
}

std::optional<int64_t> StepOfStart(const Job& job) {
  const Checkpoint* newest = NewestComplete(job, job.start.since);
  if (newest != nullptr) return newest->key.step;
  const absl::string_view directory = job.start.directory;
  if (directory.empty()) return 0;
  const std::optional<CheckpointKey> key =
      ParseCheckpointName(directory.substr(directory.rfind('/') + 1));
  if (!key.has_value()) return std::nullopt;
  return key->step;
}

void TakeStart(Job& job) {
  job.restored_from = ChooseStart(job);
  DropEvaluationAfter(job, StepOfStart(job).value_or(0));
}

bool DecideRestart(Job& job) {
  const FailureKind kind = job.failure->exit.failure;
  job.restart_failure = kind;
  if (kind == FailureKind::kRestore) return DecideAfterDamage(job);
  if (kind == FailureKind::kInput) return false;
  // The checkpoint is not to blame and is tried again.
  if (!job.restored_from.empty() && job.started == absl::InfinitePast()) {
    absl::StrAppend(&job.reason, "; this was before it trained, on its start from ",
                    job.restored_from);
  }
  ++job.checkpoints.failures;
  if (IsToStop(job) || job.recovery.hopeless) return false;
  const bool spent = Recovers(job) && !WhyBudgetIsSpent(job).empty();
  if (job.restarts < job.request.max_restarts) {
    if (spent) job.recovery.failures.clear();
    ++job.restarts;
    job.restart_reason =
        absl::StrCat("restart ", job.restarts, " of ", job.request.max_restarts, ": ", job.reason);
    return true;
  }
  // If the spec allows no restarts, the budget of recovery stands in.
  if (!Recovers(job) || job.request.max_restarts > 0 || spent) return false;
  ++job.restarts;
  job.restart_reason = absl::StrCat("restart ", job.restarts, ": ", job.reason);
  return true;
}

void FailForDamage(Job& job, const Checkpoint& damaged, Moment now) {
  if (job.state != JobState::kQueued) return;
  if (damaged.key.generation < job.start.since.value()) return;  // It would not start from it.
  if (job.request.checkpoints.previous_on_damage && !ChooseStart(job).empty()) return;
  job.state = JobState::kFailed;
  job.ended = now.wall;
  job.reason = absl::StrCat(damaged.reason, "; ", HowToGoOn(job, CompleteBefore(job, damaged.key)));
}

std::optional<Refusal> RefuseResume(const Job& job, bool has_from) {
  const std::string name = absl::StrCat("job ", job.request.id.value());
  if (!job.ended_already()) {
    return Refusal{Refusal::Kind::kState, "JOB_NOT_ENDED",
                   absl::StrCat(name,
                                " has not ended: cancel it first to resume it from a "
                                "checkpoint")};
  }
  if (has_from) return std::nullopt;
  const std::string start = ChooseStart(job);
  const std::string unusable = WhyUnusable(job, start);
  if (!start.empty() && unusable.empty()) return std::nullopt;
  if (job.checkpoints.settlement.has_value()) {
    return Refusal{
        Refusal::Kind::kState, "NO_CHECKPOINT",
        absl::StrCat(name, " has no checkpoint that is known; ", JobDirectory(job.request),
                     " is being scanned for checkpoints: try again in a moment")};
  }
  if (!start.empty()) {
    return Refusal{Refusal::Kind::kState, "NO_CHECKPOINT",
                   absl::StrCat(name, " would go on from ", start, ", which is ", unusable,
                                ": name another checkpoint with --from; paceline checkpoint list ",
                                job.request.id.value(), " shows them")};
  }
  return Refusal{Refusal::Kind::kState, "NO_CHECKPOINT",
                 absl::StrCat(name,
                              " has no complete checkpoint to go on from: submit it again, "
                              "or name one with --from")};
}

void ResumeJob(Job& job, JobRequest request, const std::string& from) {
  job.request = std::move(request);
  job.plan = {PlanVersion(job.plan.version.value() + 1), job.request.strategy_spec,
              job.request.strategy.ladder, job.request.strategy.slipstream};
  if (!from.empty()) job.start = {from, NextUnused(job)};
  if (!from.empty() && !IsOwn(job, from)) job.origin = from;
  if (!from.empty()) job.evaluation.reset();  // Of the line that is left.
  job.state = JobState::kQueued;
  job.reason = "resumed by request";
  job.placed = job.started = job.ended = absl::InfinitePast();
  job.ranks.clear();
  job.failure.reset();
  if (job.profile.has_value()) job.profile->ranks.clear();
  job.restarts = 0;
  job.restart_reason.clear();
  job.asked_to_stop = false;
  job.recovery.failures.clear();
}

void TakeUpAfterRestoration(Job& job, Generation used, Moment now) {
  job.generations_used = std::max(job.generations_used, used);
  RequeueJob(job, kRestoredReason, StopGraceOf(job.request), now);
  // A stopping job has its directory scanned when it has stopped.
  if (job.state == JobState::kQueued && SavesCheckpoints(job.request)) {
    job.checkpoints.settlement = Settlement{NewestUsed(job), "", now.steady + kSettlementPatience};
  }
}

}  // namespace paceline
