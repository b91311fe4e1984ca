// The steps of a group of ranks that average the gradients of each step among themselves in modes
// of updates (docs/decisions/0013-slipstream.md), so that all must make the same steps.
//
//   NextCompute ─▶ step · wait · stop · end ─▶ summed over the group ─▶ all alike: carried out
//                       ▲                                                  else: taken back
//                       └──────────────── after a moment ─────────────────────┘
//
// In modes of gradients each rank makes steps of its own. They begin when all ranks of the group
// have been ordered to make one. Until then a rank asks the others, even if steps were updates only
// while it was in another step. So all stop at the same exchange, and none asks in vain.
//
// Pure.
#ifndef SLIPSTREAM_GROUP_STEPS_H_
#define SLIPSTREAM_GROUP_STEPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "slipstream/rank.h"

namespace paceline {

// For one generation. Thread-compatible.
class GroupSteps {
 public:
  explicit GroupSteps(int ranks) : ranks_(ranks) {}

  // Whether this rank asks the others before it carries out an order that is no copy. Here and
  // below `update_periods` is SlipstreamRank's when the order was given.
  bool Asks(int64_t update_periods) const { return ranks_ > 1 && left_ < update_periods; }

  // The numbers that are summed over the group.
  static std::vector<double> Numbers(ComputeOrder::Kind kind);

  // Whether to carry out the order: all were ordered the same, and not to wait. If not, it is taken
  // back (SlipstreamRank::DropStep), and NextCompute is asked again.
  bool Agree(absl::Span<const double> sums, ComputeOrder::Kind kind, int64_t update_periods);

 private:
  int ranks_;
  int64_t left_ = 0;  // Periods of updates that the group has left.
};

}  // namespace paceline

#endif  // SLIPSTREAM_GROUP_STEPS_H_
