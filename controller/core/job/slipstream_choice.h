// How a job trains by Slipstream, as far as decisions about it need to know.
#ifndef CONTROLLER_CORE_JOB_SLIPSTREAM_CHOICE_H_
#define CONTROLLER_CORE_JOB_SLIPSTREAM_CHOICE_H_

#include "slipstream/plan.h"

namespace paceline {

struct SlipstreamChoice {
  SlipstreamMode mode = SlipstreamMode::kFree;
  WindowBounds window;  // For modes of updates.

  // Whether no rank waits for a slow one.
  bool own_pace() const { return mode == SlipstreamMode::kFree || mode == SlipstreamMode::kDrop; }

  // The bounds are ignored in modes that have no window.
  friend bool operator==(const SlipstreamChoice& a, const SlipstreamChoice& b) {
    const bool same_window = a.window.min_steps == b.window.min_steps &&
                             a.window.max_steps == b.window.max_steps &&
                             a.window.max_cap == b.window.max_cap;
    return a.mode == b.mode && (same_window || !IsLocal(a.mode));
  }
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_SLIPSTREAM_CHOICE_H_
