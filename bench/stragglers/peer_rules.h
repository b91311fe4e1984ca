// Published rules by which other systems call a rank slow, for comparison. Written from their
// descriptions. Each gets better data than in its own system: compute without waits, only typical
// steps, in order and without warm-up, and windows of this length.
//
//   NVRx (nvidia-resiliency-ext): medians since the last report, every kReportSteps. A rank is slow
//     if least median of the job / its own < 0.75 (relative), or its own best / its own < 0.75
//     (individual).
//   DLRover: the smaller of two rounds > 2 x the median over all ranks; made for a check before the
//     job, here used for every report.
//   Sliding window: the median of the last 10 steps > 1.1 x the median of that over the stage.
//   BOCD: Bayesian online detection of change points (R. Adams, D. MacKay, 2007) in a rank's own
//     series; with a check of 10 % between the means before and after as in Greyhound.
#ifndef BENCH_STRAGGLERS_PEER_RULES_H_
#define BENCH_STRAGGLERS_PEER_RULES_H_

#include <memory>
#include <string>
#include <vector>

#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline::detect {

inline constexpr int kReportSteps = 30;  // A minute of steps of two seconds.

class PeerRule {
 public:
  virtual ~PeerRule() = default;

  // Takes one step: `compute` by rank, in seconds, NaN if not known. Appends the ranks that are
  // called slow now and were not before to `alarms`.
  virtual void Step(const std::vector<double>& compute, std::vector<int>& alarms) = 0;
};

struct NamedRule {
  std::string name;
  std::unique_ptr<PeerRule> rule;
};

// All of them, always in the same order.
std::vector<NamedRule> MakePeerRules(const std::vector<DetectorRank>& ranks);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_PEER_RULES_H_
