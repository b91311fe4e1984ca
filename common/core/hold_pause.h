// How long a job that is to end is kept from it when its last save fails, and when that is tried
// again: by ranks that have done all steps, and by the controller for a job that it stops.
#ifndef COMMON_CORE_HOLD_PAUSE_H_
#define COMMON_CORE_HOLD_PAUSE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace paceline {

// From the first try that failed. Then the job ends without.
inline constexpr absl::Duration kHoldPatience = absl::Minutes(30);

inline constexpr absl::Duration kFirstHoldPause = absl::Seconds(5);
inline constexpr absl::Duration kMaxHoldPause = absl::Seconds(60);

// The pause before the next try: twice as long after each one, and the last try is made when the
// patience ends. `tries`: that have failed, 1 or more. `held`: since the first of them. Nothing:
// it is given up.
inline std::optional<absl::Duration> PauseBeforeNextTry(int tries, absl::Duration held) {
  if (held >= kHoldPatience) return std::nullopt;
  const absl::Duration pause = kFirstHoldPause * (1 << std::min(tries - 1, 10));
  return std::min({pause, kMaxHoldPause, kHoldPatience - held});
}

}  // namespace paceline

#endif  // COMMON_CORE_HOLD_PAUSE_H_
