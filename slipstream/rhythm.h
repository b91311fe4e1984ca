// When rounds of gradients are expected: measured, in simulation and with Gloo processes. Ranks
// and the model of them (controller/core/stragglers/slipstream) go by them.
// the model of them (controller/core/stragglers/slipstream) go by them.
#ifndef SLIPSTREAM_RHYTHM_H_
#define SLIPSTREAM_RHYTHM_H_

namespace paceline {

// In `drop`, in steps since the latest round: no majority is ready earlier, and a round that takes
// longer is not waited for by a rank that is late.
inline constexpr double kStepsToFirstPoll = 0.5;
inline constexpr double kStepsToARound = 2;

}  // namespace paceline

#endif  // SLIPSTREAM_RHYTHM_H_
