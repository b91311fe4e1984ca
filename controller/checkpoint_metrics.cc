#include "controller/checkpoint_metrics.h"

#include <algorithm>
#include <array>
#include <utility>

#include "controller/core/job_checkpoints.h"

namespace paceline {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kSaveBuckets = {0.05, 0.1, 0.25, 0.5, 1,   2.5,
                                                              5,    10,  30,   60,  300, 1800};

// By SaveFailure.
constexpr std::array<const char*, 6> kCauses = {"unknown", "no_space",   "no_permission",
                                                "io",      "not_agreed", "inconsistent"};
constexpr char kSkipped[] = "skipped";

const char* CauseOf(SaveFailure failure) { return kCauses[static_cast<size_t>(failure)]; }

int64_t CompleteOnes(const Job& job) {
  const auto& records = job.checkpoints.records;
  return std::count_if(records.begin(), records.end(), [](const Checkpoint& checkpoint) {
    return checkpoint.state == CheckpointState::kComplete;
  });
}

}  // namespace

CheckpointMetrics::CheckpointMetrics(prometheus::Registry* registry)
    : last_time_(BuildGauge()
                     .Name("paceline_job_last_checkpoint_timestamp_seconds")
                     .Help("When the job's newest complete checkpoint was made, Unix time.")
                     .Register(*registry)),
      last_step_(BuildGauge()
                     .Name("paceline_job_last_checkpoint_step")
                     .Help("Steps completed in the job's newest complete checkpoint.")
                     .Register(*registry)),
      complete_(BuildGauge()
                    .Name("paceline_job_checkpoints")
                    .Help("Complete checkpoints of the job on disk.")
                    .Register(*registry)),
      failures_(BuildCounter()
                    .Name("paceline_checkpoint_failures_total")
                    .Help("Saves that came to nothing, by cause; those left out count as skipped.")
                    .Register(*registry)),
      committed_(BuildCounter()
                     .Name("paceline_checkpoints_committed_total")
                     .Help("Checkpoints that became complete.")
                     .Register(*registry)
                     .Add({})),
      commit_seconds_(BuildHistogram()
                          .Name("paceline_checkpoint_commit_seconds")
                          .Help("From a save's first report until its checkpoint was complete.")
                          .Register(*registry)
                          .Add({}, kSaveBuckets)),
      restarts_(BuildCounter()
                    .Name("paceline_job_restarts_total")
                    .Help("Starts of jobs after a rank failed.")
                    .Register(*registry)
                    .Add({})) {
  for (const char* cause : kCauses) failures_.Add({{"cause", cause}});
  failures_.Add({{"cause", kSkipped}});
}

void CheckpointMetrics::Begin(const Job& job) {
  counts_[job.request.id] = {job.checkpoints.committed, job.checkpoints.failed,
                             job.checkpoints.skipped, job.restarts};
}

void CheckpointMetrics::Count(const Job& job) {
  const JobCheckpoints& now = job.checkpoints;
  Counts& before = counts_[job.request.id];
  const int64_t committed = now.committed - before.committed;
  if (committed > 0) committed_.Increment(static_cast<double>(committed));
  if (committed > 0 && now.durable > absl::ZeroDuration()) {
    commit_seconds_.Observe(absl::ToDoubleSeconds(now.durable));
  }
  for (const auto& [cause, count] : now.failed) {
    failures_.Add({{"cause", CauseOf(cause)}})
        .Increment(static_cast<double>(count - before.failed[cause]));
  }
  failures_.Add({{"cause", kSkipped}}).Increment(static_cast<double>(now.skipped - before.skipped));
  // A resumption counts from 0 again.
  if (job.restarts > before.restarts) restarts_.Increment(job.restarts - before.restarts);
  Begin(job);
}

void CheckpointMetrics::Forget(const JobId& id) { counts_.erase(id); }

void CheckpointMetrics::Show(const Job& job) {
  if (!SavesCheckpoints(job.request)) return;
  const prometheus::Labels labels = {{"job_id", job.request.id.value()}};
  Series& series = series_[job.request.id];
  if (series.complete == nullptr) series.complete = &complete_.Add(labels);
  series.complete->Set(static_cast<double>(CompleteOnes(job)));
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
  if (found->second.last_time != nullptr) {
    last_time_.Remove(found->second.last_time);
    last_step_.Remove(found->second.last_step);
  }
  series_.erase(found);
}

}  // namespace paceline
