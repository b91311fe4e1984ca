// Plays rounds of updates: modes `free` and `pause`. Part of slipstream_model.h.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_UPDATE_ROUNDS_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_UPDATE_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/stragglers/slipstream/own_steps.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"
#include "worker/trainer/core/slipstream/running_median.h"
#include "worker/trainer/core/slipstream/window.h"

namespace paceline {

class UpdateRounds {
 public:
  // All of it outlives this.
  UpdateRounds(const OwnSteps& steps, const SlipstreamCosts& costs, bool pauses,
               const WindowBounds& bounds);

  // One round, to its end on all ranks.
  void Play();

  double now_s() const { return now_s_; }                // Since the beginning.
  int64_t rank_steps() const { return made_; }           // By then.
  double window_steps() const { return window_steps_; }  // Of the round that was played.

 private:
  struct Rank {
    double boundary_s = 0;  // End of the latest step.
    double end_s = 0;       // Of the one under way; meaningless while it waits.
    double frozen_until_s = 0;
    int64_t begun = 0;
    int64_t done = 0;
    int64_t done_at_finish = 0;
    bool waits = true;
  };
  void Begin(int rank, double at_s);
  // The step under way; begins no other.
  void End(int rank);
  // Steps that end by then.
  void Advance(double until_s);
  // All ranks take part from then on; when the last does.
  double Join(double at_s);
  void StopAll(double from_s);
  // Whether the round, over at that time, took the majority longer than Window::Patience.
  bool IsStretched(double reduced_s) const;

  const OwnSteps& steps_;
  const SlipstreamCosts& costs_;
  const WindowBounds& bounds_;
  const bool pauses_;
  std::vector<Rank> ranks_;
  std::vector<double> joined_s_;  // The present round, by rank.
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

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_UPDATE_ROUNDS_H_
