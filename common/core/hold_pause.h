// How long a job that should end is held when its last save fails, and when the save is tried
// again. Used by ranks that have done all steps, and by the controller for a job that it stops.
#ifndef COMMON_CORE_HOLD_PAUSE_H_
#define COMMON_CORE_HOLD_PAUSE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace paceline {

// Counted from the first failed try. After it, the job ends without the save.
inline constexpr absl::Duration kHoldPatience = absl::Minutes(30);

inline constexpr absl::Duration kFirstHoldPause = absl::Seconds(5);
inline constexpr absl::Duration kMaxHoldPause = absl::Seconds(60);

// The pause before the next try. It doubles each time, up to kMaxHoldPause; the last try is made
// when the patience ends. `tries`: failed so far, at least 1. `held`: time since the first. Nothing
// when the patience has ended.
inline std::optional<absl::Duration> PauseBeforeNextTry(int tries, absl::Duration held) {
  if (held >= kHoldPatience) return std::nullopt;
  const absl::Duration pause = kFirstHoldPause * (1 << std::min(tries - 1, 10));
  return std::min({pause, kMaxHoldPause, kHoldPatience - held});
}

}  // namespace paceline

#endif  // COMMON_CORE_HOLD_PAUSE_H_
