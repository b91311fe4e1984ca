// How long a job's steps take in each mode of Slipstream, from the own times of its ranks.
//
// The rounds of docs/decisions/0013-slipstream.md are played with the measured steps, by the same
// rules for windows, caps and quorums that the ranks use:
//
//   free   each rank steps on; rounds begin a window after the last header and wait for nobody but
//          those whose communication stands still; a rank waits when it is a cap ahead
//   pause  all stop for each round at their next step boundary
//   drop   a round is made when a majority has its gradient and a tenth of a step has passed;
//          gradients that come later are dropped, but for the fourth in a row
//   sync   a round is made when all have their gradient
//
// The measured steps are played twice, and the second time counts: windows have settled by then.
// A step of the job is as many rank-steps as there are ranks; in `drop` those count whose gradient
// is used.
//
// What it does not know: messages and passes take the same time whatever else runs, and a rank
// whose communication stands still does so from the beginning of its stall to the end.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_

#include "controller/core/stragglers/slipstream/own_steps.h"
#include "slipstream/plan.h"

namespace paceline {

// In seconds; 0: not known, which rather favours Slipstream.
struct SlipstreamCosts {
  double header_s = 0;  // Of a sum of a few numbers over all ranks.
  double reduce_s = 0;  // Of a sum of all parameters over all ranks.
  double pass_s = 0;    // Of one pass over a rank's parameters, such as a copy at a step boundary.
};

struct SlipstreamPrediction {
  SlipstreamMode mode = SlipstreamMode::kSync;
  WindowBounds bounds;
  double step_s = 0;        // Mean, of the job; 0: nothing can be said.
  double share = 0;         // Of what the ranks would do if each paid for its own stalls only.
  double window_steps = 0;  // Mean; modes of updates.
  double used = 1;          // Share of the gradients.
};

// Requires: bounds as window.h says.
SlipstreamPrediction PredictSlipstream(const OwnSteps& steps, const SlipstreamCosts& costs,
                                       SlipstreamMode mode, const WindowBounds& bounds = {});

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_SLIPSTREAM_MODEL_H_
