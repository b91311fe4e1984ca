// Plays rounds of gradients: modes `drop` and `sync`. Part of slipstream_model.h.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_GRADIENT_ROUNDS_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_GRADIENT_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "controller/core/stragglers/slipstream/own_steps.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"

namespace paceline {

class GradientRounds {
 public:
  // All of it outlives this.
  GradientRounds(const OwnSteps& steps, const SlipstreamCosts& costs, bool waits_for_all);

  // One round, to its end on all ranks.
  void Play();

  double now_s() const { return now_s_; }       // Since the beginning.
  int64_t rank_steps() const { return used_; }  // Gradients used by then,
  int64_t dropped() const { return dropped_; }  // and not.

 private:
  // The gradient that a rank is making.
  struct Rank {
    double begin_s = 0;
    double end_s = 0;
    double frozen_until_s = 0;
    int64_t begun = 0;
    int misses = 0;
    bool late = false;  // Made at an earlier model.

    bool IsOffered() const;
  };
  struct Poll {
    double told_s = 0;  // Gradients that end by then are in the round.
    double done_s = 0;
  };
  void Begin(int rank, double at_s);
  void Drop(int rank, double at_s);
  // Late gradients that end by then are dropped, and others begun.
  void DropLate(double until_s);
  // When all ranks take part that are to from then on.
  double Join(double at_s) const;
  int ReadyAt(double at_s) const;
  int ComingAt(double at_s) const;
  Poll PollUntilMade();

  const OwnSteps& steps_;
  const SlipstreamCosts& costs_;
  const bool waits_for_all_;
  std::vector<Rank> ranks_;
  double now_s_ = 0;
  int64_t used_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_GRADIENT_ROUNDS_H_
