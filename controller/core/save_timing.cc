#include "controller/core/save_timing.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/job_checkpoints.h"
#include "controller/core/save_order.h"

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

}  // namespace

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
