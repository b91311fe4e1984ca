// Findings about each job's stragglers, and the outcomes of remedies.
//
// Thread-compatible, except for what Prometheus reads.
#ifndef CONTROLLER_METRICS_STRAGGLER_METRICS_H_
#define CONTROLLER_METRICS_STRAGGLER_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/stragglers/job/job_stragglers.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "controller/metrics/metric_labels.h"

namespace paceline {

// Suspects per job that have a series of their own.
inline constexpr size_t kSuspectsShown = 10;

class StragglerMetrics {
 public:
  // `registry` outlives this.
  explicit StragglerMetrics(MetricRegistry& registry);

  // Call when a decision about the job was made or changed its state.
  void Decided(const JobId& job, const RemedyDecision& decision);
  // Shows the job's present state. Null: nothing is known of its stragglers.
  void Show(const JobId& job, const JobStragglers* stragglers);
  // Removes the job's series.
  void Remove(const JobId& job);

 private:
  struct Shown {
    std::array<prometheus::Counter*, kVerdictKinds> verdicts = {};
    prometheus::Gauge* suspects = nullptr;
    std::map<DecisionState, prometheus::Counter*> outcomes;
    std::map<prometheus::Labels, prometheus::Gauge*> slowdowns;
    std::map<RemedyKind, std::vector<prometheus::Gauge*>> step_seconds;
  };

  Shown& Get(const JobId& job);
  void ShowSlowdowns(const JobId& job, const ReportedVerdicts& reported, Shown& shown);

  Counters& verdicts_;
  Gauges& suspects_;
  Gauges& slowdowns_;
  Counters& remedies_;
  Gauges& step_seconds_;

  std::map<JobId, Shown> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_STRAGGLER_METRICS_H_
