// Which strategy suits a job's stalls: synchronous data parallelism or a mode of Slipstream, beside
// what the best ladder of averages would come to.
//
// All are predicted from the same measured steps and costs: ladders by ladder_planner.h, modes of
// Slipstream by slipstream_model.h. The choice:
//
//   quiet      `ddp`: the mode that would be chosen is not predicted to be 5 % faster. So it is
//              where synchronous steps come to 95 % of the ideal, in which each rank pays for its
//              own stalls only, and where rounds cost what stalls do
//   stalls     SGD: `free`. AdamW: `drop`
//   freezing   more than a tenth of the stalls hold up the rank's communication too. SGD: `free`,
//              whose windows grow by themselves, or `pause` with windows of 64 steps if that is
//              faster by more than 3 %
//   dear       AdamW, but a sum of all gradients takes more than half a step, or a twentieth of the
//              stalls holds up the communication: `free` with windows of 4 steps at most. It costs
//              accuracy (the notes' small Llama: a loss higher by 0.06 to 0.14 at equal samples)
//   unmeasured `ddp`: too little is known
//
// Ladders are never chosen: wherever one gains something, a mode of Slipstream gains more. The
// thresholds are judgement; what is measured of accuracy is small (docs/slipstream.md).
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_PLANNER_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_PLANNER_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"

namespace paceline {

struct StrategyInputs {
  LadderInputs ladder;  // Times, homes, gradient_exchange_s, costs of averages.
  // reduce_s 0: as an average of all parameters costs.
  SlipstreamCosts slipstream;
  double freezing_share = 0;  // Of the stalls; 0: none, or not known.
  bool is_adaptive = false;   // The optimizer keeps second moments: AdamW.
};

enum class StrategyWhy { kUnmeasured, kQuiet, kStalls, kFreezing, kDear };

// One word.
const char* StrategyWhyName(StrategyWhy why);
const char* SlipstreamModeName(SlipstreamMode mode);

struct StrategyPlan {
  StrategyWhy why = StrategyWhy::kUnmeasured;
  // What to train by; nothing: `ddp`.
  std::optional<SlipstreamPrediction> slipstream;
  double step_s = 0;   // Predicted of the choice; 0: unmeasured.
  double speedup = 1;  // Of it, over `ddp`.

  StallSummary stalls;
  double ideal_s = 0;  // Each rank pays for its own stalls only.
  LadderPrediction ddp;
  std::optional<LadderPrediction> ladder;         // The fastest allowed; nothing: there is none.
  std::vector<SlipstreamPrediction> slipstreams;  // Of all modes, sync, drop, free, pause.
  std::string reason;                             // One line.
};

StrategyPlan PlanStrategy(const StrategyInputs& inputs);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_PLANNER_H_
