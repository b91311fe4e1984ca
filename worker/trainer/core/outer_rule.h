// The outer step: what an optimizer does with the difference that the ranks of a group have made
// together since they were last equal.
//
//   point      the parameters when all members were equal; the same on all
//   mean       of the members' parameters now
//   d          point - mean: the negative of what they have learnt, as a gradient is
//
//   momentum' = momentum_factor momentum + d
//   point'    = point - learning_rate (d + momentum_factor momentum')    Nesterov
//   point'    = point - learning_rate momentum'                          SlowMo
//
// All members go on from point'. The momentum is 0 at the start. A learning rate of 1 with a factor
// of 0 is the plain mean.
//
// Sources. Nesterov: DiLoCo (arXiv 2311.08105, algorithm 1: outer SGD with Nesterov momentum), as
// torch.optim.SGD and torchft's DiLoCo (torchft/local_sgd.py) compute it. SlowMo: arXiv 1910.00643,
// algorithm 1, with momentum = gamma u: the paper divides d by the inner learning rate gamma and
// multiplies the step by it, so that the two are equal as long as gamma is constant, and the
// momentum here does not depend on gamma.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_OUTER_RULE_H_
#define WORKER_TRAINER_CORE_OUTER_RULE_H_

#include <cmath>
#include <cstdint>

namespace paceline {

struct OuterRule {
  enum class Kind { kNesterov, kSlowMo };

  Kind kind = Kind::kNesterov;
  double learning_rate = 0.7;  // Above 0.
  double momentum = 0.9;       // The factor; 0 <= x < 1.
  // How it is streamed (core/stream_schedule.h).
  int64_t fragments = 1;  // Parts of the model that take turns; 1 or more.
  int64_t delay = 0;      // Steps from an average's beginning until it is taken up; 0 or more.
  double alpha = 0;       // Of its own values, what a rank keeps beside the point'; 0 <= x < 1.

  bool is_streamed() const { return fragments > 1 || delay > 0 || alpha > 0; }
};

// The rule as two products and sums: momentum' = momentum * momentum + d and
// point' = point - (difference * d + step * momentum').
struct OuterFactors {
  float momentum = 0;
  float difference = 0;
  float step = 0;
};

inline OuterFactors FactorsOf(const OuterRule& rule) {
  const bool looks_ahead = rule.kind == OuterRule::Kind::kNesterov;
  OuterFactors factors;
  factors.momentum = static_cast<float>(rule.momentum);
  factors.difference = looks_ahead ? static_cast<float>(rule.learning_rate) : 0.0F;
  factors.step =
      static_cast<float>(looks_ahead ? rule.learning_rate * rule.momentum : rule.learning_rate);
  return factors;
}

inline bool IsPossible(const OuterRule& rule) {
  return std::isfinite(rule.learning_rate) && rule.learning_rate > 0 && rule.momentum >= 0 &&
         rule.momentum < 1 && rule.fragments >= 1 && rule.delay >= 0 && rule.alpha >= 0 &&
         rule.alpha < 1;
}

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_OUTER_RULE_H_
