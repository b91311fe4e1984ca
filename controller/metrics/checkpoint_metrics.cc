#include "controller/metrics/checkpoint_metrics.h"

#include <algorithm>
#include <array>
#include <utility>

#include "controller/core/checkpoint/job_checkpoints.h"

namespace paceline {
namespace {

// Indexed by SaveFailure.
constexpr std::array<const char*, 7> kCauses = {
    "unknown", "no_space", "no_permission", "io", "not_agreed", "inconsistent", "nan"};
constexpr char kSkipped[] = "skipped";

const char* CauseOf(SaveFailure failure) { return kCauses[static_cast<size_t>(failure)]; }

int64_t CompleteOnes(const Job& job) {
  const auto& records = job.checkpoints.records;
  return std::count_if(records.begin(), records.end(), [](const Checkpoint& checkpoint) {
    return checkpoint.state == CheckpointState::kComplete;
  });
}

}  // namespace

CheckpointMetrics::CheckpointMetrics(MetricRegistry& registry)
    : last_time_(registry.NewGauges("paceline_job_last_checkpoint_timestamp_seconds")),
      last_step_(registry.NewGauges("paceline_job_last_checkpoint_step")),
      complete_(registry.NewGauges("paceline_job_checkpoints")),
      saves_fail_(registry.NewGauges("paceline_job_saves_fail")),
      failures_(registry.NewCounters("paceline_checkpoint_failures_total")),
      committed_(registry.NewCounters("paceline_checkpoints_committed_total").Add({})),
      commit_seconds_(registry.NewHistograms("paceline_checkpoint_commit_seconds").Add({})),
      blocking_seconds_(registry.NewHistograms("paceline_checkpoint_blocking_seconds").Add({})) {
  for (const char* cause : kCauses) failures_.Add({{"cause", cause}});
  failures_.Add({{"cause", kSkipped}});
}

void CheckpointMetrics::Begin(const Job& job) {
  counts_[job.request.id] = {job.checkpoints.committed, job.checkpoints.failed,
                             job.checkpoints.skipped};
}

void CheckpointMetrics::Count(const Job& job) {
  const JobCheckpoints& now = job.checkpoints;
  Counts& before = counts_[job.request.id];
  const int64_t committed = now.committed - before.committed;
  if (committed > 0) committed_.Increment(static_cast<double>(committed));
  if (committed > 0 && now.durable > absl::ZeroDuration()) {
    commit_seconds_.Observe(absl::ToDoubleSeconds(now.durable));
    blocking_seconds_.Observe(absl::ToDoubleSeconds(now.blocked));
  }
  for (const auto& [cause, count] : now.failed) {
    if (count == before.failed[cause]) continue;
    failures_.Add({{"cause", CauseOf(cause)}})
        .Increment(static_cast<double>(count - before.failed[cause]));
  }
  if (now.skipped > before.skipped) {
    failures_.Add({{"cause", kSkipped}})
        .Increment(static_cast<double>(now.skipped - before.skipped));
  }
  Begin(job);
}

void CheckpointMetrics::Forget(const JobId& id) { counts_.erase(id); }

void CheckpointMetrics::Show(const Job& job) {
  if (!SavesCheckpoints(job.request) && job.checkpoints.last_error.empty() &&
      series_.count(job.request.id) == 0) {
    return;
  }
  const prometheus::Labels labels = {{"job_id", job.request.id.value()}};
  Series& series = series_[job.request.id];
  if (series.complete == nullptr) {
    series.complete = &complete_.Add(labels);
    series.saves_fail = &saves_fail_.Add(labels);
  }
  series.complete->Set(static_cast<double>(CompleteOnes(job)));
  series.saves_fail->Set(SaveTrouble(job, absl::InfinitePast()).empty() ? 0 : 1);
  const Checkpoint* newest = NewestComplete(job);
  if (newest == nullptr) return;
  if (series.last_time == nullptr) {
    series.last_time = &last_time_.Add(labels);
    series.last_step = &last_step_.Add(labels);
  }
  series.last_time->Set(absl::ToDoubleSeconds(newest->created - absl::UnixEpoch()));
  series.last_step->Set(static_cast<double>(newest->key.step));
}

void CheckpointMetrics::Remove(const JobId& id) {
  const auto found = series_.find(id);
  if (found == series_.end()) return;
  complete_.Remove(found->second.complete);
  saves_fail_.Remove(found->second.saves_fail);
  if (found->second.last_time != nullptr) {
    last_time_.Remove(found->second.last_time);
    last_step_.Remove(found->second.last_step);
  }
  series_.erase(found);
}

}  // namespace paceline
