// Which strategy suits a job's stalls: synchronous data parallelism or a mode of Slipstream. The
// best ladder of averages is shown for comparison.
//
// All are predicted from the same measured steps and costs: ladders by ladder_planner.h, modes of
// Slipstream by slipstream_model.h. The choice:
//
//   quiet      `ddp`, as no mode that would be chosen is predicted to be 5 % faster: synchronous
//              steps come to 95 % of the ideal, in which each rank pays only for its own stalls, or
//              rounds cost as much as stalls do
//   stalls     SGD: `free`. AdamW: `drop`
//   freezing   more than a tenth of the stalls also hold up the rank's communication. SGD: `free`,
//              whose windows grow by themselves, or `pause` with windows of 64 steps if that is
//              faster by more than 3 %
//   dear       AdamW, but a sum of all gradients takes more than half a step, or a twentieth of the
//              stalls hold up communication: `free` with windows of at most 4 steps. It costs
//              accuracy (the notes' small Llama: a loss higher by 0.06 to 0.14 at equal samples)
//   unmeasured `ddp`, as too little is known
//
// Ladders are never chosen: wherever one gains something, a mode of Slipstream gains more. The
// thresholds are judgement, as little is measured about accuracy (docs/slipstream.md).
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
  LadderInputs ladder;  // With times, homes, gradient_exchange_s, costs of averages.
  // reduce_s 0: it costs as much as an average of all parameters.
  SlipstreamCosts slipstream;
  double freezing_share = 0;  // Share of the stalls; 0: none, or not known.
  bool is_adaptive = false;   // The optimizer keeps second moments: AdamW.
};

enum class StrategyWhy { kUnmeasured, kQuiet, kStalls, kFreezing, kDear };

// Names of one word.
const char* StrategyWhyName(StrategyWhy why);
const char* SlipstreamModeName(SlipstreamMode mode);

struct StrategyPlan {
  StrategyWhy why = StrategyWhy::kUnmeasured;
  // What to train by; nothing: `ddp`.
  std::optional<SlipstreamPrediction> slipstream;
  double step_s = 0;   // Predicted for the choice; 0: unmeasured.
  double speedup = 1;  // Of the choice over `ddp`.

  StallSummary stalls;
  double ideal_s = 0;  // If each rank pays only for its own stalls.
  LadderPrediction ddp;
  std::optional<LadderPrediction> ladder;         // The fastest one allowed; nothing: none is.
  std::vector<SlipstreamPrediction> slipstreams;  // All modes: sync, drop, free, pause.
  std::string reason;                             // One line.
};

StrategyPlan PlanStrategy(const StrategyInputs& inputs);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_PLANNER_H_
