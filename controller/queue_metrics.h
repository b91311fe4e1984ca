// How jobs go through the queues: how many are in each state, how long they waited and started, how
// they ended, and how often they were restarted.
//
// Thread-compatible, but for what Prometheus reads.
#ifndef CONTROLLER_QUEUE_METRICS_H_
#define CONTROLLER_QUEUE_METRICS_H_

#include <array>
#include <map>
#include <string>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/job.h"
#include "controller/core/queue.h"
#include "controller/metric_labels.h"

namespace paceline {

class QueueMetrics {
 public:
  // `registry` outlives this.
  explicit QueueMetrics(MetricRegistry& registry);

  // Queues that are shown although they have no job.
  void SetQueues(const Queues& queues);
  // A job from before the start: what it has done is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call. True: it is in another state.
  bool Count(const Job& job);
  void Forget(const JobId& id);

 private:
  // Of a job, as last counted.
  struct Counted {
    std::string queue;
    JobState state = JobState::kQueued;
    int restarts = 0;
  };
  struct Queued {
    std::array<prometheus::Gauge*, kJobStates> jobs;
    prometheus::Histogram* wait;
    prometheus::Histogram* start;
  };

  Queued& Get(const std::string& queue);
  prometheus::Gauge& JobsIn(const Counted& job) {
    return *Get(job.queue).jobs[static_cast<size_t>(job.state)];
  }

  Gauges& jobs_;
  Histograms wait_;
  Histograms start_;
  Counters& finished_;
  Counters& restarts_;

  std::map<std::string, Queued> queues_;
  std::map<JobId, Counted> counted_;
};

}  // namespace paceline

#endif  // CONTROLLER_QUEUE_METRICS_H_
