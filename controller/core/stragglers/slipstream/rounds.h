// Plays rounds of gradients (modes `drop` and `sync`) and of updates (`free` and `pause`). Part of
// slipstream_model.h.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_ROUNDS_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/stragglers/slipstream/own_steps.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"
#include "slipstream/running_median.h"
#include "slipstream/window.h"

namespace paceline {

// Rounds of gradients: modes `drop` and `sync`.
class GradientRounds {
 public:
  // The arguments outlive this.
  GradientRounds(const OwnSteps& steps, const SlipstreamCosts& costs, bool waits_for_all);

  // Plays one round, to its end on all ranks.
  void Play();

  double now_s() const { return now_s_; }       // Since the beginning.
  int64_t rank_steps() const { return used_; }  // Gradients used so far,
  int64_t dropped() const { return dropped_; }  // and dropped.

 private:
  // A rank and the gradient that it is making.
  struct Rank {
    double begin_s = 0;
    double end_s = 0;
    double frozen_until_s = 0;
    int64_t begun = 0;
    int misses = 0;
    bool late = false;  // Made with an earlier model.

    bool IsOffered() const;
  };
  struct Poll {
    double reported_s = 0;  // Gradients that end by this time are in the round.
    double done_s = 0;
  };
  void Begin(int rank, double at_s);
  void Drop(int rank, double at_s);
  // Drops late gradients that end by this time, and begins others.
  void DropLate(double until_s);
  // When all ranks have joined that are to take part from `at_s` on.
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

// Rounds of updates: modes `free` and `pause`.
class UpdateRounds {
 public:
  // The arguments outlive this.
  UpdateRounds(const OwnSteps& steps, const SlipstreamCosts& costs, bool pauses,
               const WindowBounds& bounds);

  // Plays one round, to its end on all ranks.
  void Play();

  double now_s() const { return now_s_; }                // Since the beginning.
  int64_t rank_steps() const { return made_; }           // Made so far.
  double window_steps() const { return window_steps_; }  // Of the last round played.

 private:
  struct Rank {
    double boundary_s = 0;  // End of the latest step.
    double end_s = 0;       // Of the step under way; meaningless while it waits.
    double frozen_until_s = 0;
    int64_t begun = 0;
    int64_t done = 0;
    int64_t done_at_finish = 0;
    bool waits = true;
  };
  void Begin(int rank, double at_s);
  // Ends the step under way; begins no other.
  void End(int rank);
  // Carries out the steps that end by this time.
  void Advance(double until_s);
  // All ranks take part from `at_s` on. Returns when the last one does.
  double Join(double at_s);
  void StopAll(double from_s);
  // Whether the round, which ended at this time, took the majority longer than Window::Patience.
  bool IsStretched(double reduced_s) const;

  const OwnSteps& steps_;
  const SlipstreamCosts& costs_;
  const WindowBounds& bounds_;
  const bool pauses_;
  std::vector<Rank> ranks_;
  std::vector<double> joined_s_;  // When each rank joined the present round.
  Window window_;
  RunningMedian collective_;
  bool stretched_ = false;
  double next_s_ = 0;  // When the next round is due.
  double now_s_ = 0;
  double copies_s_ = 0;  // At boundaries, per step.
  double window_steps_ = 0;
  int64_t cap_ = 0;
  int64_t made_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_ROUNDS_H_
