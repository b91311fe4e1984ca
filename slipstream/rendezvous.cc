#include "slipstream/rendezvous.h"

#include <cstddef>
#include <utility>

namespace paceline {
namespace {

std::pair<int64_t, int64_t> Advance(const RoundState& state) {
  return {state.generation, state.round};
}

}  // namespace

SlipstreamDecision DecideSlipstreamRendezvous(
    const std::vector<std::optional<RoundState>>& reported) {
  using Takes = SlipstreamDecision::Takes;
  SlipstreamDecision decision;
  const RoundState* source = nullptr;
  for (size_t rank = 0; rank < reported.size(); ++rank) {
    if (!reported[rank] || (source != nullptr && Advance(*reported[rank]) <= Advance(*source)))
      continue;
    source = &*reported[rank];
    decision.source = static_cast<int>(rank);
  }
  for (const std::optional<RoundState>& one : reported) {
    if (source == nullptr) {
      decision.takes.push_back(Takes::kNothing);
    } else if (!one) {
      decision.takes.push_back(Takes::kAll);
    } else {
      const bool has_it = MissedRounds(*one, *source) == Missed::kNothing;
      decision.takes.push_back(has_it ? Takes::kNothing : Takes::kModel);
    }
  }
  return decision;
}

}  // namespace paceline
