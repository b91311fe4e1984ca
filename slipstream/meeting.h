// Who gets what from whom when the members of a generation with Slipstream meet.
//
// Every member tells its state; all of them compute the same decision from the same states.
//
//   - The source is the member that trained in the newest generation and, of those, has finished
//     most rounds; of several, the one of the lowest rank. All take its RoundState.
//   - A member whose last finished round is another one takes the source's canonical model; in
//     modes of gradients the optimizer's state too, which belongs to it. What it has not sent stays
//     its own, unless it missed more than the round that it was in (round_state.h).
//   - A member that has never trained takes all.
//
// Pure.
#ifndef SLIPSTREAM_MEETING_H_
#define SLIPSTREAM_MEETING_H_

#include <optional>
#include <vector>

#include "slipstream/round_state.h"

namespace paceline {

struct SlipstreamDecision {
  enum class Takes { kNothing, kModel, kAll };
  std::optional<int> source;  // A rank; none: nobody has trained, they begin.
  std::vector<Takes> takes;   // By rank.
};

// `told`: by rank; unset: it has never trained.
SlipstreamDecision DecideSlipstreamMeeting(const std::vector<std::optional<RoundState>>& told);

}  // namespace paceline

#endif  // SLIPSTREAM_MEETING_H_
