#include "controller/queue_metrics.h"

#include <utility>

namespace paceline {

QueueMetrics::QueueMetrics(MetricRegistry& registry)
    : jobs_(registry.NewGauges("paceline_queue_jobs")),
      wait_(registry.NewHistograms("paceline_job_queue_wait_seconds")),
      start_(registry.NewHistograms("paceline_job_start_duration_seconds")),
      finished_(registry.NewCounters("paceline_jobs_finished_total")),
      restarts_(registry.NewCounters("paceline_job_restarts_total")) {}

void QueueMetrics::SetQueues(const Queues& queues) {
  for (const auto& [name, queue] : queues) Get(name);
}

QueueMetrics::Queued& QueueMetrics::Get(const std::string& queue) {
  const auto [found, added] = queues_.try_emplace(queue);
  Queued& queued = found->second;
  if (!added) return queued;
  for (int s = 0; s < kJobStates; ++s) {
    queued.jobs[static_cast<size_t>(s)] =
        &jobs_.Add({{"queue", queue}, {"state", LabelOf(static_cast<JobState>(s))}});
  }
  queued.wait = &wait_.Add({{"queue", queue}});
  queued.start = &start_.Add({{"queue", queue}});
  // Rates begin at the first job's end, not at the second's.
  finished_.Add({{"queue", queue}, {"state", "succeeded"}, {"failure", "none"}});
  finished_.Add({{"queue", queue}, {"state", "cancelled"}, {"failure", "none"}});
  for (int k = 0; k < kFailureKinds; ++k) {
    const std::string failure = LabelOf(static_cast<FailureKind>(k));
    finished_.Add({{"queue", queue}, {"state", "failed"}, {"failure", failure}});
    restarts_.Add({{"queue", queue}, {"failure", failure}});
  }
  return queued;
}

void QueueMetrics::Begin(const Job& job) {
  Counted& counted = counted_[job.request.id];
  counted = {job.request.queue, job.state, job.restarts};
  JobsIn(counted).Increment();
}

bool QueueMetrics::Count(const Job& job) {
  const auto [found, added] = counted_.try_emplace(job.request.id);
  Counted& counted = found->second;
  const JobState before = added ? JobState::kQueued : counted.state;
  if (added || before != job.state || counted.queue != job.request.queue) {
    if (!added) JobsIn(counted).Decrement();
    counted.queue = job.request.queue;
    counted.state = job.state;
    JobsIn(counted).Increment();
  }
  const Queued& queued = Get(job.request.queue);
  // A resumption counts from 0 again.
  const int restarts = job.restarts - std::exchange(counted.restarts, job.restarts);
  if (restarts > 0) {
    restarts_.Add({{"queue", counted.queue}, {"failure", LabelOf(job.restart_failure)}})
        .Increment(restarts);
  }
  if (before == job.state) return added;
  if (before == JobState::kQueued && job.holds_slots() && job.generation == Generation(1)) {
    queued.wait->Observe(absl::ToDoubleSeconds(job.placed - job.created));
  }
  if (before != JobState::kRecovering && job.state == JobState::kRunning) {
    queued.start->Observe(absl::ToDoubleSeconds(job.started - job.placed));
  }
  if (job.ended_already()) {
    const bool failed = job.state == JobState::kFailed && job.failure.has_value();
    const FailureKind kind = failed ? job.failure->exit.failure : FailureKind::kNone;
    finished_
        .Add({{"queue", counted.queue}, {"state", LabelOf(job.state)}, {"failure", LabelOf(kind)}})
        .Increment();
  }
  return true;
}

void QueueMetrics::Forget(const JobId& id) {
  const auto found = counted_.find(id);
  if (found == counted_.end()) return;
  JobsIn(found->second).Decrement();
  counted_.erase(found);
}

}  // namespace paceline
