// A point in time for core code, which gets it as an argument and never reads a clock.
#ifndef COMMON_CORE_MOMENT_H_
#define COMMON_CORE_MOMENT_H_

#include "absl/time/time.h"

namespace paceline {

struct Moment {
  absl::Time steady;  // Monotonic, with an arbitrary start: for deadlines and durations.
  absl::Time wall;    // Civil time: only for display and records.
};

}  // namespace paceline

#endif  // COMMON_CORE_MOMENT_H_
