// The first steps of a process.
#ifndef COMMON_CORE_STARTUP_STEPS_H_
#define COMMON_CORE_STARTUP_STEPS_H_

#include <cstdint>

namespace paceline {

// Steps that may take as long as the ranks' meeting, and say nothing of later ones: libraries
// settle in the first, the gradients' buckets are laid out anew after it.
inline constexpr int64_t kStartupSteps = 2;

}  // namespace paceline

#endif  // COMMON_CORE_STARTUP_STEPS_H_
