#include "controller/core/stragglers/slipstream/strategy_advice.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/stragglers/ladder/ladder_model.h"
#include "controller/core/stragglers/slipstream/own_steps.h"

namespace paceline {
namespace {

// Gains required to leave ddp, in all and in each half of the steps, so as not to act upon chance.
constexpr double kMinSpeedup = 1.10;
constexpr double kMinSpeedupOfHalf = 1.05;
// Gain required to change from one mode to another.
constexpr double kMinGain = 1.05;

OwnTimes Part(const OwnTimes& times, int begin, int steps) {
  const auto width = static_cast<std::ptrdiff_t>(times.ranks);
  const auto first = times.seconds.begin() + begin * width;
  return {times.ranks, steps, std::vector<float>(first, first + steps * width)};
}

double SpeedupOf(const OwnTimes& times, const StrategyInputs& inputs,
                 const SlipstreamPrediction& wanted) {
  LadderModel model(times, inputs.ladder.gradient_groups);
  const std::vector<double>& steps = model.synchronous();
  const double ddp_s = std::accumulate(steps.begin(), steps.end(), 0.0) / times.steps +
                       inputs.ladder.gradient_exchange_s;
  SlipstreamCosts costs = inputs.slipstream;
  if (costs.reduce_s == 0) costs.reduce_s = inputs.ladder.costs.Of(times.ranks);
  const SlipstreamPrediction part =
      PredictSlipstream(OwnSteps(times, inputs.freezing_share), costs, wanted.mode, wanted.bounds);
  return part.step_s > 0 ? ddp_s / part.step_s : 0;
}

bool HoldsInBothHalves(const StrategyInputs& inputs, const SlipstreamPrediction& wanted) {
  const OwnTimes& times = inputs.ladder.times;
  const int half = times.steps / 2;
  return SpeedupOf(Part(times, 0, half), inputs, wanted) >= kMinSpeedupOfHalf &&
         SpeedupOf(Part(times, half, times.steps - half), inputs, wanted) >= kMinSpeedupOfHalf;
}

StrategyMove Move(const StrategyInputs& inputs, const StrategyAdvice& advice) {
  const std::optional<SlipstreamPrediction>& wanted = advice.plan.slipstream;
  if (inputs.ladder.step < inputs.ladder.warmup_steps) return StrategyMove::kWarmUp;
  if (!advice.current.has_value()) {
    const bool gains = wanted.has_value() && advice.plan.speedup >= kMinSpeedup &&
                       HoldsInBothHalves(inputs, *wanted);
    return gains ? StrategyMove::kChange : StrategyMove::kKeep;
  }
  if (!wanted.has_value()) return StrategyMove::kSynchronous;
  if (wanted->mode == advice.current->mode) return StrategyMove::kKeep;
  const bool gains = inputs.is_adaptive || advice.current_s >= kMinGain * wanted->step_s;
  return gains ? StrategyMove::kChange : StrategyMove::kKeep;
}

}  // namespace

StrategyAdvice AdviseStrategy(const StrategyInputs& inputs,
                              const std::optional<SlipstreamChoice>& current) {
  StrategyAdvice advice;
  advice.current = advice.choice = current;
  advice.freezing_share = inputs.freezing_share;
  advice.plan = PlanStrategy(inputs);
  const StrategyPlan& plan = advice.plan;
  advice.reason = plan.reason;
  if (plan.why == StrategyWhy::kUnmeasured) return advice;
  advice.current_s = plan.ddp.step_s;
  for (const SlipstreamPrediction& one : plan.slipstreams) {
    if (current.has_value() && one.mode == current->mode) advice.current_s = one.step_s;
  }
  advice.step_s = advice.current_s;
  advice.move = Move(inputs, advice);
  switch (advice.move) {
    case StrategyMove::kChange:
      advice.choice = SlipstreamChoice{plan.slipstream->mode, plan.slipstream->bounds};
      advice.step_s = plan.slipstream->step_s;
      break;
    case StrategyMove::kSynchronous:
      advice.choice.reset();
      advice.step_s = plan.ddp.step_s;
      break;
    case StrategyMove::kWarmUp:
      advice.reason =
          absl::StrCat("warm-up until step ", inputs.ladder.warmup_steps, "; then ", plan.reason);
      break;
    default:
      break;
  }
  return advice;
}

std::string DescribeStrategy(const std::optional<SlipstreamChoice>& choice) {
  if (!choice.has_value()) return "ddp";
  return absl::StrCat("slipstream ", SlipstreamModeName(choice->mode));
}

}  // namespace paceline
