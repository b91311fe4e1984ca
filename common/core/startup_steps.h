// The first steps of a process.
#ifndef COMMON_CORE_STARTUP_STEPS_H_
#define COMMON_CORE_STARTUP_STEPS_H_

#include <cstdint>

namespace paceline {

// The first steps may take as long as starting up, and say nothing about later ones: libraries
// initialise in the first one, and the gradients' buckets are rearranged after it.
inline constexpr int64_t kStartupSteps = 2;

}  // namespace paceline

#endif  // COMMON_CORE_STARTUP_STEPS_H_
