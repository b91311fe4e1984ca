// A point in time as core sees it: an argument, never read from a clock.
#ifndef COMMON_CORE_MOMENT_H_
#define COMMON_CORE_MOMENT_H_

#include "absl/time/time.h"

namespace paceline {

struct Moment {
  absl::Time steady;  // Monotonic, arbitrary start: for deadlines and durations.
  absl::Time wall;    // Civil time: for display and records only.
};

}  // namespace paceline

#endif  // COMMON_CORE_MOMENT_H_
