// When rounds of gradients are expected; measured in simulation and with Gloo processes. Used by
// the ranks and by the model of them (controller/core/stragglers/slipstream).
#ifndef SLIPSTREAM_RHYTHM_H_
#define SLIPSTREAM_RHYTHM_H_

namespace paceline {

// For `drop`, in steps since the latest round: no majority is ready earlier than the first, and a
// late rank does not wait for a round that takes longer than the second.
inline constexpr double kStepsToFirstPoll = 0.5;
inline constexpr double kStepsToARound = 2;

}  // namespace paceline

#endif  // SLIPSTREAM_RHYTHM_H_
