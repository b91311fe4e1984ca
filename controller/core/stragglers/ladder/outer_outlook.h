// What outer steps (docs/outer-steps.md) would make of a job's pace: its ranks train by themselves
// for a period of steps, and then exchange all parameters once.
//
//   exchange = mean of all parameters over all ranks / period + gradients within gradient groups
//   step     = sum over cycles of the largest sum of own times of a rank / steps + exchange
//
// Own times and costs are those that ladders are planned by (ladder_planner.h). It is rather too
// slow than too fast:
//   - While a job trains synchronously, part of its exchange hides behind the backward pass, and
//     only the rest is measured. So a mean is taken to cost the own time of a step more.
//   - Gradient groups are taken to exchange over the links that all ranks share.
// Bytes are those of ring all-reduces, in the format that the job sends today, which is not known
// here. With int8 in place of fp32 they are a quarter. The time is then a lower bound: it is a
// quarter, too, if bandwidth alone is the limit, and the same if latency is.
//
// Nothing is said about how much is learnt from a step.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_OUTER_OUTLOOK_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_OUTER_OUTLOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_planner.h"

namespace paceline {

struct ExchangePace {
  double step_s = 0;      // Mean; 0: not known.
  double exchange_s = 0;  // Part of step_s, without waits for ranks that come late.
  double sent = 0;        // By a rank per step, as a multiple of the bytes of all parameters.

  double share() const { return step_s > 0 ? exchange_s / step_s : 0; }
};

struct OuterOutlook {
  ExchangePace today;
  int64_t period = 0;  // Steps between two outer steps over all ranks; 0: nothing is predicted.
  ExchangePace outer;
  ExchangePace int8;  // The same in int8 in place of fp32.

  // Steps/s with outer steps, as a multiple of today's.
  double speedup() const { return outer.step_s > 0 ? today.step_s / outer.step_s : 0; }
};

struct OuterOptions {
  // Ascending. The first one with which exchanges take at most `share` of a step is taken, else the
  // longest of which a cycle was measured.
  std::vector<int64_t> periods = {10, 20, 50, 100, 200, 500};
  double share = 0.05;
};

// Nothing is predicted for a job of one rank, or whose ranks exchange nothing (groups of one),
// without measurements, or with an outer step already.
OuterOutlook PredictOuterSteps(const LadderInputs& inputs, const OuterOptions& options = {});

// What was measured, what is predicted, and what a person can do, in one line. `job`: its id.
// `has_ladder`: the job's ladder can be changed. Requires: outlook.period > 0.
std::string DescribeOuterSteps(const OuterOutlook& outlook, const std::string& job,
                               bool has_ladder);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_OUTER_OUTLOOK_H_
