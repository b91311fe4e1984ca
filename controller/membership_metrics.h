// Metrics about changes of membership, of all jobs together.
//
// Thread-compatible, but for what Prometheus reads.
#ifndef CONTROLLER_MEMBERSHIP_METRICS_H_
#define CONTROLLER_MEMBERSHIP_METRICS_H_

#include <map>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/job.h"

namespace paceline {

class MembershipMetrics {
 public:
  // `registry` outlives this.
  explicit MembershipMetrics(MetricRegistry& registry);

  // A job from before the start: what it has done is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call.
  void Count(const Job& job);
  void Forget(const JobId& id) { counted_.erase(id); }

 private:
  // Of a job: the newest generations that were counted as begun, and as done.
  struct Counted {
    Generation begun{0};
    Generation done{0};
  };

  Counters& changes_;
  Histograms durations_;
  std::map<JobId, Counted> counted_;
};

}  // namespace paceline

#endif  // CONTROLLER_MEMBERSHIP_METRICS_H_
