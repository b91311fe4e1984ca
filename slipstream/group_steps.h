// The steps of a group of ranks that average the gradients of each step among themselves, in modes
// of updates (docs/decisions/0013-slipstream.md): all of them make the same ones.
//
//   NextCompute ─▶ step · wait · stop · end ─▶ summed over the group ─▶ all alike: carried out
//                       ▲                                                  else: taken back
//                       └──────────────── after a moment ─────────────────────┘
//
// In modes of gradients each rank makes steps of its own. They begin when all of the group have
// been ordered to make one; until then a rank asks the others, also if steps were updates only
// while it was in another one. So all leave off at the same exchange, and none asks in vain.
//
// Pure.
#ifndef SLIPSTREAM_GROUP_STEPS_H_
#define SLIPSTREAM_GROUP_STEPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "slipstream/rank.h"

namespace paceline {

// Of one generation. Thread-compatible.
class GroupSteps {
 public:
  explicit GroupSteps(int ranks) : ranks_(ranks) {}

  // Whether this rank asks the others before it carries out an order that is no copy;
  // `update_periods` is SlipstreamRank's, of when it was ordered; so below.
  bool Asks(int64_t update_periods) const { return ranks_ > 1 && left_ < update_periods; }

  // What is summed over the group.
  static std::vector<double> Numbers(ComputeOrder::Kind kind);

  // Whether the order is carried out: all were ordered the same, and not to wait. Else it is taken
  // back (SlipstreamRank::DropStep), and NextCompute asked again.
  bool Agree(absl::Span<const double> sums, ComputeOrder::Kind kind, int64_t update_periods);

 private:
  int ranks_;
  int64_t left_ = 0;  // Periods of updates that are over for the group.
};

}  // namespace paceline

#endif  // SLIPSTREAM_GROUP_STEPS_H_
