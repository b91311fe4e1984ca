// Metrics about checkpoints and restarts: gauges for each job that is shown, and counters of all.
//
// Thread-compatible, but for what Prometheus reads.
#ifndef CONTROLLER_CHECKPOINT_METRICS_H_
#define CONTROLLER_CHECKPOINT_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>

#include "common/core/ids.h"
#include "controller/core/job.h"

namespace paceline {

class CheckpointMetrics {
 public:
  // `registry` outlives this.
  explicit CheckpointMetrics(prometheus::Registry* registry);

  // A job from before the start: what it has done is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call.
  void Count(const Job& job);
  void Forget(const JobId& id);

  // Sets the job's gauges, and takes them away.
  void Show(const Job& job);
  void Remove(const JobId& id);

 private:
  // Of a job, as last counted.
  struct Counts {
    int64_t committed = 0;
    std::map<SaveFailure, int64_t> failed;
    int64_t skipped = 0;
    int restarts = 0;
  };
  struct Series {
    prometheus::Gauge* complete = nullptr;
    // Null before the first checkpoint.
    prometheus::Gauge* last_time = nullptr;
    prometheus::Gauge* last_step = nullptr;
  };

  prometheus::Family<prometheus::Gauge>& last_time_;
  prometheus::Family<prometheus::Gauge>& last_step_;
  prometheus::Family<prometheus::Gauge>& complete_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Counter& committed_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Counter& restarts_;

  std::map<JobId, Counts> counts_;
  std::map<JobId, Series> series_;
};

}  // namespace paceline

#endif  // CONTROLLER_CHECKPOINT_METRICS_H_
