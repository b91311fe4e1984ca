// What is found of each job's stragglers, and what became of the remedies.
//
// Thread-compatible, but for what Prometheus reads.
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

// So many suspects of a job have a series of their own.
inline constexpr size_t kSuspectsShown = 10;

class StragglerMetrics {
 public:
  // `registry` outlives this.
  explicit StragglerMetrics(MetricRegistry& registry);

  // A decision of the job was made, or has come to another state.
  void Decided(const JobId& job, const RemedyDecision& decision);
  // Shows the job as it is now. Null: nothing is known of its stragglers.
  void Show(const JobId& job, const JobStragglers* stragglers);
  // Takes the series away.
  void Remove(const JobId& job);

 private:
  struct Shown {
    std::array<prometheus::Counter*, kVerdictKinds> verdicts = {};
    prometheus::Gauge* suspects = nullptr;
    std::map<DecisionState, prometheus::Counter*> outcomes;
    std::map<prometheus::Labels, prometheus::Gauge*> slowdowns;
    std::map<RemedyKind, std::vector<prometheus::Gauge*>> step_seconds;
    std::map<int64_t, DecisionState> decisions;  // As last counted, by id.
  };

  Shown& Get(const JobId& job);
  void ShowSlowdowns(const JobId& job, const ToldVerdicts& told, Shown& shown);

  Counters& verdicts_;
  Gauges& suspects_;
  Gauges& slowdowns_;
  Counters& remedies_;
  Gauges& step_seconds_;

  std::map<JobId, Shown> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_STRAGGLER_METRICS_H_
