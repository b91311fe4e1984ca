#include "controller/core/stragglers/slipstream/slipstream_model.h"

#include <cstdint>

#include "controller/core/stragglers/slipstream/rounds.h"

namespace paceline {
namespace {

// Plays the measured steps once to settle, and once more; returns the mean step of the latter.
template <class Rounds, class EachRound>
double StepSeconds(const OwnSteps& steps, Rounds& rounds, EachRound each_round) {
  const int64_t once = static_cast<int64_t>(steps.ranks()) * steps.steps();
  while (rounds.rank_steps() < once) rounds.Play();
  const double begin_s = rounds.now_s();
  const int64_t begin = rounds.rank_steps();
  while (rounds.rank_steps() < begin + once) {
    rounds.Play();
    each_round();
  }
  return (rounds.now_s() - begin_s) * steps.ranks() /
         static_cast<double>(rounds.rank_steps() - begin);
}

}  // namespace

SlipstreamPrediction PredictSlipstream(const OwnSteps& steps, const SlipstreamCosts& costs,
                                       SlipstreamMode mode, const WindowBounds& bounds) {
  SlipstreamPrediction prediction;
  prediction.mode = mode;
  prediction.bounds = bounds;
  if (!(steps.typical_s() > 0)) return prediction;
  if (IsLocal(mode)) {
    UpdateRounds rounds(steps, costs, mode == SlipstreamMode::kPause, bounds);
    double windows = 0;
    int64_t count = 0;
    prediction.step_s = StepSeconds(steps, rounds, [&] {
      windows += rounds.window_steps();
      ++count;
    });
    prediction.window_steps = windows / static_cast<double>(count);
  } else {
    GradientRounds rounds(steps, costs, mode == SlipstreamMode::kSync);
    prediction.step_s = StepSeconds(steps, rounds, [] {});
    const auto used = static_cast<double>(rounds.rank_steps());
    prediction.used = used / (used + static_cast<double>(rounds.dropped()));
  }
  prediction.share = steps.ideal_s() / prediction.step_s;
  return prediction;
}

}  // namespace paceline
