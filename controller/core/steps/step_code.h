// A duration in 16 bits: logarithmic from a microsecond to an hour and more, exact to 0.04 %.
#ifndef CONTROLLER_CORE_STEPS_STEP_CODE_H_
#define CONTROLLER_CORE_STEPS_STEP_CODE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace paceline {

// Longer durations have greater codes. 0: nothing was reported.
using StepCode = uint16_t;

inline constexpr double kShortestCodedS = 1e-6;  // Shorter ones count as this,
inline constexpr double kLongestCodedS = 1e5;    // and longer ones as this.
inline constexpr int kStepCodes = 65535;

// Requires: not NaN.
inline StepCode EncodeSeconds(double seconds) {
  const double range = std::log(kLongestCodedS / kShortestCodedS);
  const double within = std::clamp(seconds, kShortestCodedS, kLongestCodedS);
  const double share = std::log(within / kShortestCodedS) / range;
  return static_cast<StepCode>(1 + std::lround(share * (kStepCodes - 1)));
}

// Code 0 gives 0.
inline double DecodeSeconds(StepCode code) {
  if (code == 0) return 0;
  const double range = std::log(kLongestCodedS / kShortestCodedS);
  return kShortestCodedS * std::exp(range * (code - 1) / (kStepCodes - 1));
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_STEP_CODE_H_
