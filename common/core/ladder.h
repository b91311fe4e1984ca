// From a strategy to the groups of a generation: where ranks are turns "the ranks of a node"
// into numbers.
#ifndef COMMON_CORE_LADDER_H_
#define COMMON_CORE_LADDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

// Where a rank lives. Ranks of a node are consecutive, and so are those of a rack.
struct RankHome {
  std::string node;
  std::string rack;  // Label "rack" of the node; nodes without it share one.
};

enum class LadderScope { kSize, kNode, kRack, kAll };

// As in a job file: proto/job_spec.proto, LadderLevel.
struct LadderLevel {
  int64_t period = 1;
  LadderScope scope = LadderScope::kSize;
  int size = 0;  // Of kSize.

  friend bool operator==(const LadderLevel& a, const LadderLevel& b) {
    return a.period == b.period && a.scope == b.scope && a.size == b.size;
  }
};

// No levels: synchronous, the gradients of all ranks at each step.
using Ladder = std::vector<LadderLevel>;

// "2:8,4:node,8:all"; "synchronous".
std::string DescribeLadder(const Ladder& ladder);

// Sizes of the groups of consecutive ranks, which add up to the number of ranks. `size` is that
// of each group for kSize, and divides the number of ranks.
std::vector<int> LadderGroups(LadderScope scope, int size, const std::vector<RankHome>& homes);

}  // namespace paceline

#endif  // COMMON_CORE_LADDER_H_
