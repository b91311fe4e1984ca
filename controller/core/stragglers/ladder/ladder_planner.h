// Which ladder makes a job's steps shortest, by what its ranks have measured of their latest steps.
//
// The measured own times (ladder_stalls.h) are played through each candidate (ladder_candidates.h)
// by the model of ladder_model.h, all through the same steps, and each level adds what its averages
// cost. Nothing is drawn, so the same measurements give the same plan. A gain is predicted where
// stalls of different groups pass at the same time, and nowhere else: not for a rank that is always
// slow, not when a stall is in each group at each step, and not for more than the stalls cost.
//
// Bounds for the sake of the training, as ranks that average less often learn less from a step:
//   - No ladder within the warm-up of the job's strategy, or the first twentieth of its steps.
//     (T. Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020, begin
//     synchronously, too.)
//   - No period above 8, and no equivalent period (ladder_candidates.h) above 4.25: the ladders for
//     which the authors of PyTorch's averager have published speed-ups ("Straggler Mitigation on
//     PyTorch DDP by Hierarchical SGD") go up to 8 and 4.22.
//   - Of the ladders within 3 % of the best, that with the shortest equivalent period.
//   - None where more than a quarter of the steps of a rank stall. The same authors name frequent
//     stalls (30 %) as a limit; what a narrow ladder still gains there is little beside what the
//     ranks lose by their own stalls, whose cause is to be found.
//   - Only for a speed-up of 10 %, of which half is sure (one-sided 95 %, jackknife over 16 parts).
//     A ladder that gains less than 5 % is given up for synchronous steps.
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
  int min_steps = 128;  // Measured ones.
  double min_speedup = 1.10;
  double keep_speedup = 1.05;
  double tie = 0.03;
  double warmup_share = 0.05;
  double max_equivalent_period = 4.25;
  double max_stall_share = 0.25;
  CandidateLimits limits;  // max_levels 1 for local_sgd.
};

struct LadderInputs {
  OwnTimes times;
  std::vector<RankHome> homes;       // By rank; as many as times.ranks.
  std::vector<int> gradient_groups;  // Sizes, of the strategy; empty: none.
  AllReduceCosts costs;              // Of averages of parameters.
  // Per synchronous step, what the exchange of gradients takes beyond the backward pass; 0: not
  // known, which rather favours synchronous steps.
  double gradient_exchange_s = 0;
  Ladder current;  // By which all ranks train.
  int64_t step = 0;
  int64_t steps = 0;  // Of the job.
  int64_t warmup_steps = 0;
};

enum class LadderAdvice {
  kNotMeasured,  // Too little is known.
  kWarmUp,
  kKeep,         // The current ladder, or synchronous steps: no other is better by enough.
  kChange,       // To LadderPlan::ladder.
  kSynchronous,  // The current ladder does not gain enough any more.
};

struct LadderPrediction {
  Ladder ladder;
  double step_s = 0;             // Mean.
  double communication_s = 0;    // In it.
  double speedup = 1;            // Over synchronous steps.
  double equivalent_period = 1;  // ladder_candidates.h.
};

// The best so many candidates are told.
inline constexpr size_t kCandidatesTold = 8;

struct LadderPlan {
  LadderAdvice advice = LadderAdvice::kNotMeasured;
  Ladder ladder;           // What to train by: the current one unless kChange or kSynchronous.
  double step_s = 0;       // Predicted of it.
  double speedup_low = 1;  // Of the best candidate over synchronous steps; one-sided 95 %.
  LadderPrediction current;
  LadderPrediction synchronous;
  std::vector<LadderPrediction> candidates;  // Fastest first.
  StallSummary stalls;
  std::string reason;  // One line.
};

LadderPlan PlanLadder(const LadderInputs& inputs, const LadderOptions& options = {});

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_PLANNER_H_
