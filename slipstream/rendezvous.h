// Who gets what from whom when the members of a Slipstream generation rendezvous.
//
// Every member sends its state, and all compute the same decision from the same states.
//
//   - The source is the member that trained in the newest generation and, among those, has finished
//     most rounds; of several, the one of the lowest rank. All take its RoundState.
//   - A member whose last finished round is another one takes the source's canonical model and, in
//     modes of gradients, the optimizer's state, which belongs to it. It keeps what it has not
//     sent, unless it missed more than the round that it was in (round_state.h).
//   - A member that has never trained takes everything.
//
// Pure.
#ifndef SLIPSTREAM_RENDEZVOUS_H_
#define SLIPSTREAM_RENDEZVOUS_H_

#include <optional>
#include <vector>

#include "slipstream/round_state.h"

namespace paceline {

struct SlipstreamDecision {
  enum class Takes { kNothing, kModel, kAll };
  std::optional<int> source;  // A rank; none: nobody has trained, so all begin.
  std::vector<Takes> takes;   // By rank.
};

// `reported`: states by rank; unset: it has never trained.
SlipstreamDecision DecideSlipstreamRendezvous(
    const std::vector<std::optional<RoundState>>& reported);

}  // namespace paceline

#endif  // SLIPSTREAM_RENDEZVOUS_H_
