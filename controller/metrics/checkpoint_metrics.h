// Metrics about checkpoints: gauges per job that is shown, and counters over all jobs.
//
// Thread-compatible, except for what Prometheus reads.
#ifndef CONTROLLER_METRICS_CHECKPOINT_METRICS_H_
#define CONTROLLER_METRICS_CHECKPOINT_METRICS_H_

#include <map>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/job/job.h"

namespace paceline {

class CheckpointMetrics {
 public:
  // `registry` outlives this.
  explicit CheckpointMetrics(MetricRegistry& registry);

  // Takes in a job from before the start; what it did before is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call.
  void Count(const Job& job);
  void Forget(const JobId& id);

  // Show sets the job's gauges, Remove removes them.
  void Show(const Job& job);
  void Remove(const JobId& id);

 private:
  // Counts of a job as of the last call.
  struct Counts {
    int64_t committed = 0;
    std::map<SaveFailure, int64_t> failed;
    int64_t skipped = 0;
  };
  struct Series {
    prometheus::Gauge* complete = nullptr;
    prometheus::Gauge* saves_fail = nullptr;
    // Null until the first checkpoint.
    prometheus::Gauge* last_time = nullptr;
    prometheus::Gauge* last_step = nullptr;
  };

  Gauges& last_time_;
  Gauges& last_step_;
  Gauges& complete_;
  Gauges& saves_fail_;
  Counters& failures_;
  prometheus::Counter& committed_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Histogram& blocking_seconds_;

  std::map<JobId, Counts> counts_;
  std::map<JobId, Series> series_;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_CHECKPOINT_METRICS_H_
