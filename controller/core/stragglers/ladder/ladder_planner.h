// Which ladder makes a job's steps shortest, by what its ranks have measured in their latest steps.
//
// The model of ladder_model.h plays the measured own times (ladder_stalls.h) through each candidate
// (ladder_candidates.h), always the same steps, and adds what each level's averages cost. Nothing
// is random, so the same measurements give the same plan. A gain is predicted only where stalls of
// different groups pass at the same time: not for a rank that is always slow, not when there is a
// stall in each group at each step, and never more than the stalls cost.
//
// Limits that protect the training, as ranks that average less often learn less from a step:
//   - No ladder during the warm-up of the job's strategy, or the first twentieth of its steps.
//     (T. Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020, also begin
//     synchronously.)
//   - No period above 8, and no equivalent period (ladder_candidates.h) above 4.25: the ladders for
//     which the authors of PyTorch's averager have published speed-ups ("Straggler Mitigation on
//     PyTorch DDP by Hierarchical SGD") go up to 8 and 4.22.
//   - Of the ladders within 3 % of the best, the one with the shortest equivalent period.
//   - No ladder if more than a quarter of the rank-steps stall. The same authors name frequent
//     stalls (30 %) as a limit. What a narrow ladder still gains there is little compared with what
//     ranks lose by their own stalls, whose cause should be found.
//   - A ladder only for a speed-up of 10 %, half of which is certain (one-sided 95 %, jackknife
//     over 16 parts). A ladder that gains less than 5 % gives way to synchronous steps.
//   - A ladder with an outer step stays: its periods may be far longer, for links that are slow,
//     and its rates were chosen for them.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_PLANNER_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/stragglers/ladder/ladder_candidates.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

struct LadderOptions {
  int min_steps = 128;  // Measured steps.
  double min_speedup = 1.10;
  double keep_speedup = 1.05;
  double tie = 0.03;
  double warmup_share = 0.05;
  double max_equivalent_period = 4.25;
  double max_stall_share = 0.25;
  CandidateLimits limits;  // Has max_levels 1 for local_sgd.
};

struct LadderInputs {
  OwnTimes times;
  std::vector<RankHome> homes;       // By rank; as many as times.ranks.
  std::vector<int> gradient_groups;  // Sizes by the strategy; empty: none.
  AllReduceCosts costs;              // For averages of parameters.
  // What the exchange of gradients adds to the backward pass in a synchronous step; 0: not known,
  // which rather favours synchronous steps.
  double gradient_exchange_s = 0;
  Ladder current;  // The ladder that all ranks train by.
  int64_t step = 0;
  int64_t steps = 0;  // The job's.
  int64_t warmup_steps = 0;
};

enum class LadderAdvice {
  kNotMeasured,  // Too little is known.
  kWarmUp,
  kKeep,         // The current ladder or synchronous steps stay: nothing else is better by enough.
  kChange,       // To LadderPlan::ladder.
  kSynchronous,  // The current ladder no longer gains enough.
};

struct LadderPrediction {
  Ladder ladder;
  double step_s = 0;             // Mean.
  double communication_s = 0;    // Part of step_s.
  double speedup = 1;            // Over synchronous steps.
  double equivalent_period = 1;  // ladder_candidates.h.
};

// How many of the best candidates are listed.
inline constexpr size_t kCandidatesReported = 8;

struct LadderPlan {
  LadderAdvice advice = LadderAdvice::kNotMeasured;
  Ladder ladder;           // What to train by; the current one unless kChange or kSynchronous.
  double step_s = 0;       // Predicted with this ladder.
  double speedup_low = 1;  // Of the best candidate, against synchronous steps; one-sided 95 %.
  LadderPrediction current;
  LadderPrediction synchronous;
  std::vector<LadderPrediction> candidates;  // Fastest first.
  StallSummary stalls;
  std::string reason;  // One line.
};

LadderPlan PlanLadder(const LadderInputs& inputs, const LadderOptions& options = {});

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_PLANNER_H_
