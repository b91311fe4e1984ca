// What a job that leaves its strategy to the controller should train by next: compares the choice
// of strategy_planner.h with what the job trains by now.
//
//   ddp         ─▶ a mode    the mode is predicted to be 10 % faster, and 5 % in each half of the
//                            measured steps
//   a mode      ─▶ ddp       the planner sees too little to gain (`quiet`)
//   sgd: a mode ─▶ another   it is predicted to be 5 % faster
//   adamw: one  ─▶ another   the planner chooses it, which considers accuracy, too
//
// Nothing changes in the first `warmup_steps` of the job.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_ADVICE_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_ADVICE_H_

#include <optional>
#include <string>

#include "controller/core/job/slipstream_choice.h"
#include "controller/core/stragglers/slipstream/strategy_planner.h"

namespace paceline {

enum class StrategyMove {
  kNotMeasured,  // Too little is known.
  kWarmUp,
  kKeep,
  kChange,       // To StrategyAdvice::choice.
  kSynchronous,  // To ddp.
};

struct StrategyAdvice {
  StrategyMove move = StrategyMove::kNotMeasured;
  // Nothing: ddp.
  std::optional<SlipstreamChoice> current;
  std::optional<SlipstreamChoice> choice;
  double current_s = 0;  // Predicted mean steps; 0: not measured.
  double step_s = 0;     // Predicted for the choice.
  StrategyPlan plan;
  double freezing_share = 0;  // The one that the plan was made with.
  std::string reason;         // One line.
};

// `inputs.ladder.warmup_steps` is the strategy's.
StrategyAdvice AdviseStrategy(const StrategyInputs& inputs,
                              const std::optional<SlipstreamChoice>& current);

// "ddp", "slipstream free".
std::string DescribeStrategy(const std::optional<SlipstreamChoice>& choice);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_STRATEGY_ADVICE_H_
