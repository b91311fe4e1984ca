#include "controller/core/checkpoint/save_order.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/core/hold_pause.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

absl::Duration IntervalOf(const Job& job, Moment now) {
  const CheckpointPolicy& policy = job.request.checkpoints;
  if (!SavesCheckpoints(job.request)) return absl::ZeroDuration();
  if (!policy.auto_interval) return policy.every;
  const JobCheckpoints& checkpoints = job.checkpoints;
  if (checkpoints.committed == 0) return kFirstAutoSave;
  const int nodes = std::max<int>(1, static_cast<int>(job.nodes.size()));
  absl::Duration node_time = checkpoints.node_time;
  if (job.placed != absl::InfinitePast()) node_time += nodes * (now.wall - job.placed);
  return AutoInterval(checkpoints.blocked,
                      MeanTimeBetweenFailures(checkpoints.failures, node_time, nodes),
                      checkpoints.durable);
}

// Retries a last save that failed for a reason that may pass. Nothing: the save is given up.
std::optional<JobChange> HoldAndTryAgain(Job& job, Moment now) {
  StopAfterSave& stop = *job.checkpoints.stop_after;
  if (stop.next_try == absl::InfiniteFuture()) {
    stop.held_since = std::min(stop.held_since, now.steady);
    const absl::Duration held = now.steady - stop.held_since;
    const std::optional<absl::Duration> pause = PauseBeforeNextTry(++stop.tries, held);
    if (!pause.has_value()) return std::nullopt;
    stop.next_try = now.steady + *pause;
    const absl::Duration left = absl::Trunc(kHoldPatience - held, absl::Seconds(1));
    job.reason = absl::StrCat(
        stop.reason, ": trains on and is saved again and again for ", absl::FormatDuration(left),
        ", as it could not be saved before it stops: ", job.checkpoints.order->error,
        "; mend the cause, save it elsewhere with `paceline checkpoint save ",
        job.request.id.value(), " --to DIR`, or stop it unsaved with `paceline job cancel`");
    return JobChange::kState;
  }
  if (now.steady < stop.next_try || job.state != JobState::kRunning) return JobChange::kNone;
  OrderSave(job, /*at_once=*/false, stop.reason, now);
  return JobChange::kState;
}

// Records where the order saves, and drops the oldest entries that no save needs.
void NoteDirectory(Job& job, int64_t order, std::string base) {
  auto& directories = job.checkpoints.directories;
  directories[order] = std::move(base);
  for (auto at = directories.begin();
       directories.size() > kMaxOrderDirectories && at->first < order;) {
    const auto& saves = job.checkpoints.saves;
    const bool is_used = std::any_of(saves.begin(), saves.end(),
                                     [&](const Save& save) { return save.order == at->first; });
    at = is_used ? std::next(at) : directories.erase(at);
  }
}

}  // namespace

bool MayPass(SaveFailure failure) {
  return failure == SaveFailure::kNoSpace || failure == SaveFailure::kNoPermission ||
         failure == SaveFailure::kIo;
}

std::optional<Refusal> RefuseSave(const Job& job) {
  const std::string name = absl::StrCat("job ", job.request.id.value());
  if (!SavesCheckpoints(job.request)) {
    return Refusal{Refusal::Kind::kState, "CHECKPOINTS_OFF",
                   absl::StrCat(name,
                                " has no directory for checkpoints, so its ranks have nothing to "
                                "save with, elsewhere neither: submit it with "
                                "checkpoint.directory")};
  }
  if (job.state != JobState::kRunning) {
    return Refusal{Refusal::Kind::kState, "JOB_NOT_RUNNING",
                   absl::StrCat(name, " does not train: only a running job can be saved")};
  }
  return std::nullopt;
}

bool IsOrderPending(const Job& job) {
  return job.checkpoints.order.has_value() &&
         job.checkpoints.order->state == SaveOrder::State::kPending;
}

void OrderSave(Job& job, bool at_once, std::string reason, Moment now,
               const std::string& directory) {
  JobCheckpoints& checkpoints = job.checkpoints;
  std::string base(absl::StripSuffix(directory, "/"));
  if (base == absl::StripSuffix(job.request.checkpoints.directory, "/")) base.clear();
  if (IsOrderPending(job)) {
    const std::string pending = BaseOf(job, checkpoints.order->number);
    if (base.empty()) base = pending;
    if (base == pending && (checkpoints.order->now || !at_once)) return;
    at_once = at_once || checkpoints.order->now;
  }
  SaveOrder order;
  order.number = checkpoints.order.has_value() ? checkpoints.order->number + 1 : 1;
  order.generation = job.generation;
  order.now = at_once;
  order.reason = std::move(reason);
  if (!base.empty()) NoteDirectory(job, order.number, std::move(base));
  checkpoints.order = std::move(order);
  // A job that waits for a save now waits for this one.
  if (checkpoints.stop_after.has_value()) {
    checkpoints.stop_after->next_try = absl::InfiniteFuture();
    checkpoints.stop_after->deadline = now.steady + kStopPatience;
  }
  PlanNextSave(job, now);
}

void CompleteOrder(Job& job, int64_t number, int64_t step) {
  if (!IsOrderPending(job) || job.checkpoints.order->number != number) return;
  job.checkpoints.order->state = SaveOrder::State::kComplete;
  job.checkpoints.order->step = step;
}

void FailOrder(Job& job, int64_t number, std::string error, bool may_pass) {
  if (!IsOrderPending(job) || job.checkpoints.order->number != number) return;
  job.checkpoints.order->may_pass = may_pass;
  job.checkpoints.order->state = SaveOrder::State::kFailed;
  job.checkpoints.order->error = std::move(error);
}

void StopWhenSaved(Job& job, const std::string& reason, absl::Duration grace, Moment now) {
  const auto& stop = job.checkpoints.stop_after;
  if (stop.has_value() && !stop->requeue) return;
  OrderSave(job, /*at_once=*/false, reason, now);
  job.checkpoints.stop_after = StopAfterSave{reason, grace, now.steady + kStopPatience};
  job.reason = absl::StrCat(reason, ": saves a checkpoint before it stops");
}

void RequeueWhenSaved(Job& job, const std::string& reason, const NodeName& leaves, Moment now) {
  if (job.checkpoints.stop_after.has_value()) return;
  OrderSave(job, /*at_once=*/false, reason, now);
  job.checkpoints.stop_after =
      StopAfterSave{reason, StopGraceOf(job.request), now.steady + kStopPatience,
                    /*requeue=*/true, leaves};
  job.reason = absl::StrCat(reason, "; saves a checkpoint before it is queued again");
}

JobChange WithdrawRequeue(Job& job, const NodeName& node) {
  const auto& stop = job.checkpoints.stop_after;
  if (!stop.has_value() || !stop->requeue || stop->leaves != node) return JobChange::kNone;
  job.checkpoints.stop_after.reset();
  job.reason = absl::StrCat("stays on ", node.value());
  return JobChange::kState;
}

JobChange TakeRequestToEnd(Job& job, const RankState& rank, Moment now) {
  if (!rank.report.asked_to_end || rank.report.state == TrainerState::kExited ||
      job.checkpoints.stop_after.has_value() ||
      (job.state != JobState::kStarting && job.state != JobState::kRunning &&
       job.state != JobState::kRecovering)) {
    return JobChange::kNone;
  }
  const std::string reason = absl::StrCat("rank ", RankOf(job, rank).value(), " on ",
                                          rank.slot.node.value(), " was asked to end (SIGTERM)");
  if (RefuseSave(job).has_value()) return CancelJob(job, reason, StopGraceOf(job.request), now);
  StopWhenSaved(job, reason, StopGraceOf(job.request), now);
  return JobChange::kState;
}

JobChange StopIfSaved(Job& job, Moment now) {
  if (!job.checkpoints.stop_after.has_value() ||
      (job.state != JobState::kRunning && job.state != JobState::kRecovering)) {
    return JobChange::kNone;
  }
  const StopAfterSave stop = *job.checkpoints.stop_after;
  if (IsOrderPending(job)) {
    if (now.steady < stop.deadline) return JobChange::kNone;
    FailOrder(job, job.checkpoints.order->number,
              absl::StrCat("not complete within ", absl::FormatDuration(kStopPatience)),
              /*may_pass=*/stop.held_since != absl::InfiniteFuture());
  }
  const SaveOrder& order = *job.checkpoints.order;
  if (stop.requeue && order.state == SaveOrder::State::kFailed) {
    job.checkpoints.stop_after.reset();
    job.reason = absl::StrCat("trains on, as it could not be saved: ", order.error);
    return JobChange::kState;
  }
  if (stop.requeue) return RequeueJob(job, stop.reason, stop.grace, now);
  const auto is_held = [&job, &stop] {
    return stop.held_since != absl::InfiniteFuture() ||
           std::any_of(job.ranks.begin(), job.ranks.end(), HoldsState);
  };
  if (order.state == SaveOrder::State::kFailed && (order.may_pass || is_held())) {
    if (const std::optional<JobChange> held = HoldAndTryAgain(job, now)) return *held;
  }
  const std::string outcome =
      order.state == SaveOrder::State::kComplete
          ? absl::StrCat("saved as ", DirectoryOf(job, {order.step, order.generation.value()},
                                                  BaseOf(job, order.number)))
          : absl::StrCat("not saved: ", order.error);
  return CancelJob(job, absl::StrCat(stop.reason, "; ", outcome), stop.grace, now);
}

absl::Time StopDeadline(const Job& job) {
  if (!job.checkpoints.stop_after.has_value()) return absl::InfiniteFuture();
  const StopAfterSave& stop = *job.checkpoints.stop_after;
  if (stop.next_try == absl::InfiniteFuture()) return stop.deadline;
  // While its ranks are being changed, the end of that change wakes the job instead.
  return job.state == JobState::kRunning ? stop.next_try : absl::InfiniteFuture();
}

absl::Duration MeanTimeBetweenFailures(int64_t failures, absl::Duration node_time, int nodes) {
  return (kPriorNodeTime + std::max(node_time, absl::ZeroDuration())) / (1 + failures) / nodes;
}

absl::Duration AutoInterval(absl::Duration blocked, absl::Duration mean_time_between_failures,
                            absl::Duration durable) {
  const double seconds = std::sqrt(2 * absl::ToDoubleSeconds(blocked) *
                                   absl::ToDoubleSeconds(mean_time_between_failures));
  return std::max(
      {std::min(absl::Seconds(seconds), kMaxAutoInterval), kMinAutoInterval, 2 * durable});
}

void PlanNextSave(Job& job, Moment now) {
  JobCheckpoints& checkpoints = job.checkpoints;
  checkpoints.interval = IntervalOf(job, now);
  if (checkpoints.interval == absl::ZeroDuration()) return;
  checkpoints.next_save = now.steady + checkpoints.interval;
  checkpoints.next_save_wall = now.wall + checkpoints.interval;
}

JobChange TickSaving(Job& job, Moment now) {
  if (now.steady < NextSaveDeadline(job)) return JobChange::kNone;
  const absl::Duration unit =
      job.checkpoints.interval < absl::Seconds(10) ? absl::Milliseconds(1) : absl::Seconds(1);
  const std::string reason =
      absl::StrCat("every ", absl::FormatDuration(absl::Trunc(job.checkpoints.interval, unit)),
                   job.request.checkpoints.auto_interval ? ", by cost and failures" : "");
  OrderSave(job, /*at_once=*/false, reason, now);
  return JobChange::kState;
}

absl::Time NextSaveDeadline(const Job& job) {
  if (job.state != JobState::kRunning || IsOrderPending(job)) return absl::InfiniteFuture();
  return job.checkpoints.next_save;
}

}  // namespace paceline
