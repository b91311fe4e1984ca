// What the ranks of a job with Slipstream agree on besides their membership.
#ifndef SLIPSTREAM_PLAN_H_
#define SLIPSTREAM_PLAN_H_

#include <cstdint>

#include "slipstream/window.h"

namespace paceline {

enum class SlipstreamMode {
  kSync,   // The mean of all ranks' gradients.
  kDrop,   // The mean of the gradients that are there in time.
  kFree,   // Each rank updates its own model; updates are averaged; nobody waits.
  kPause,  // The same, but all stop for each round at their next step boundary.
};

// Whether a step updates the rank's own model; else it makes a gradient with the canonical one.
constexpr bool IsLocal(SlipstreamMode mode) {
  return mode == SlipstreamMode::kFree || mode == SlipstreamMode::kPause;
}

struct SlipstreamPlan {
  int64_t version = 0;  // That of the TrainingPlan: grows with each change.
  SlipstreamMode mode = SlipstreamMode::kSync;
  WindowBounds window;          // For local modes.
  bool averages_state = false;  // Only `kPause`: each round also averages the optimizer's tensors,
                                // over the ranks that have made a step.
};

}  // namespace paceline

#endif  // SLIPSTREAM_PLAN_H_
