// How long a job's steps take in each mode of Slipstream, from the own times of its ranks.
//
// Plays the rounds of docs/decisions/0013-slipstream.md with the measured steps, by the ranks' own
// rules for windows, caps and quorums:
//
//   free   each rank steps on; rounds begin a window after the last header and wait only for ranks
//          whose communication stands still; a rank that is a cap ahead waits
//   pause  all stop for each round at their next step boundary
//   drop   a round is made when a majority has its gradient and a tenth of a step has passed; later
//          gradients are dropped, except the fourth in a row
//   sync   a round is made when all have their gradient
//
// The measured steps are played twice, and the second time counts, as windows have settled by then.
// A step of the job is as many rank-steps as there are ranks; in `drop` those count whose gradient
// is used.
//
// Simplifications: messages and passes take the same time whatever else runs, and a rank whose
// communication stands still does so for its whole stall.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_

#include "controller/core/stragglers/slipstream/own_steps.h"
#include "slipstream/plan.h"

namespace paceline {

// In seconds; 0: not known, which rather favours Slipstream.
struct SlipstreamCosts {
  double header_s = 0;  // A sum of a few numbers over all ranks.
  double reduce_s = 0;  // A sum of all parameters over all ranks.
  double pass_s = 0;    // One pass over a rank's parameters, such as a copy at a step boundary.
};

struct SlipstreamPrediction {
  SlipstreamMode mode = SlipstreamMode::kSync;
  WindowBounds bounds;
  double step_s = 0;        // Mean step of the job; 0: not known.
  double share = 0;         // Of what ranks would do if each paid only for its own stalls.
  double window_steps = 0;  // Mean; for modes of updates.
  double used = 1;          // Share of the gradients that are used.
};

// Requires: bounds as in window.h.
SlipstreamPrediction PredictSlipstream(const OwnSteps& steps, const SlipstreamCosts& costs,
                                       SlipstreamMode mode, const WindowBounds& bounds = {});

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_
