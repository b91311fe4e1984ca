#include "controller/core/stragglers/slipstream/strategy_planner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/slipstream/own_steps.h"

namespace paceline {
namespace {

constexpr double kMinSpeedup = 1.05;
constexpr double kFreezing = 0.1;
constexpr double kFreezingAdaptive = 0.05;
constexpr double kDearSteps = 0.5;
constexpr double kTie = 0.03;
constexpr int64_t kPauseSteps = 64;
constexpr int64_t kAdaptiveSteps = 4;

class Planner {
 public:
  explicit Planner(const StrategyInputs& inputs)
      : inputs_(inputs),
        costs_(inputs.slipstream),
        steps_(inputs.ladder.times, inputs.freezing_share) {
    if (costs_.reduce_s == 0) costs_.reduce_s = inputs.ladder.costs.Of(steps_.ranks());
  }

  StrategyPlan Plan(const LadderPlan& ladders) {
    plan_.ddp = ladders.synchronous;
    plan_.stalls = ladders.stalls;
    plan_.ideal_s = steps_.ideal_s();
    if (!ladders.candidates.empty()) plan_.ladder = ladders.candidates.front();
    WindowBounds free, pause;
    if (inputs_.is_adaptive) free.max_steps = kAdaptiveSteps;
    pause.min_steps = pause.max_steps = kPauseSteps;
    const SlipstreamPrediction sync = Predict(SlipstreamMode::kSync, {});
    const SlipstreamPrediction drop = Predict(SlipstreamMode::kDrop, {});
    const SlipstreamPrediction loose = Predict(SlipstreamMode::kFree, free);
    const SlipstreamPrediction paused = Predict(SlipstreamMode::kPause, pause);
    if (sync.step_s == 0) {
      plan_.reason = "the steps of the ranks take no time";
      return std::move(plan_);
    }
    plan_.slipstreams = {sync, drop, loose, paused};
    if (!inputs_.is_adaptive) {
      const bool freezes = inputs_.freezing_share > kFreezing;
      const bool pauses = freezes && paused.step_s < (1 - kTie) * loose.step_s;
      Choose(pauses ? paused : loose, freezes ? StrategyWhy::kFreezing : StrategyWhy::kStalls);
    } else if (IsDear()) {
      Choose(loose, StrategyWhy::kDear);
    } else {
      Choose(drop, StrategyWhy::kStalls);
    }
    return std::move(plan_);
  }

 private:
  SlipstreamPrediction Predict(SlipstreamMode mode, const WindowBounds& bounds) const {
    return PredictSlipstream(steps_, costs_, mode, bounds);
  }

  bool IsDear() const {
    return costs_.reduce_s > kDearSteps * steps_.typical_s() ||
           inputs_.freezing_share >= kFreezingAdaptive;
  }

  void Choose(const SlipstreamPrediction& wanted, StrategyWhy why) {
    const double speedup = plan_.ddp.step_s / wanted.step_s;
    if (speedup < kMinSpeedup) {
      plan_.why = StrategyWhy::kQuiet;
      plan_.step_s = plan_.ddp.step_s;
      plan_.reason = absl::StrFormat(
          "ddp: %.4g s a step, %.0f %% of the ideal; %s would take %.4g s", plan_.step_s,
          100 * plan_.ideal_s / plan_.step_s, SlipstreamModeName(wanted.mode), wanted.step_s);
      return;
    }
    plan_.why = why;
    plan_.slipstream = wanted;
    plan_.step_s = wanted.step_s;
    plan_.speedup = speedup;
    plan_.reason = absl::StrFormat("%s: %.4g s a step, %.2f x as fast as ddp, %.0f %% of the ideal",
                                   SlipstreamModeName(wanted.mode), plan_.step_s, plan_.speedup,
                                   100 * wanted.share);
    if (plan_.ladder.has_value()) {
      absl::StrAppendFormat(&plan_.reason, "; the ladder %s %.2f x",
                            DescribeLadder(plan_.ladder->ladder), plan_.ladder->speedup);
    }
  }

  const StrategyInputs& inputs_;
  SlipstreamCosts costs_;
  const OwnSteps steps_;
  StrategyPlan plan_;
};

}  // namespace

const char* StrategyWhyName(StrategyWhy why) {
  switch (why) {
    case StrategyWhy::kUnmeasured:
      return "unmeasured";
    case StrategyWhy::kQuiet:
      return "quiet";
    case StrategyWhy::kStalls:
      return "stalls";
    case StrategyWhy::kFreezing:
      return "freezing";
    case StrategyWhy::kDear:
      return "dear";
  }
  return "";
}

const char* SlipstreamModeName(SlipstreamMode mode) {
  switch (mode) {
    case SlipstreamMode::kSync:
      return "sync";
    case SlipstreamMode::kDrop:
      return "drop";
    case SlipstreamMode::kFree:
      return "free";
    case SlipstreamMode::kPause:
      return "pause";
  }
  return "";
}

StrategyPlan PlanStrategy(const StrategyInputs& inputs) {
  LadderInputs synchronous = inputs.ladder;
  synchronous.current.clear();  // The present ladder does not matter.
  const LadderPlan ladders = PlanLadder(synchronous);
  if (ladders.advice == LadderAdvice::kNotMeasured) {
    StrategyPlan plan;
    plan.stalls = ladders.stalls;
    plan.reason = ladders.reason;
    return plan;
  }
  return Planner(inputs).Plan(ladders);
}

}  // namespace paceline
