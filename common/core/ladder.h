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

// Sizes of the groups of consecutive ranks, which add up to the number of ranks. `size` is that
// of each group for kSize, and divides the number of ranks.
std::vector<int> LadderGroups(LadderScope scope, int size, const std::vector<RankHome>& homes);

}  // namespace paceline

#endif  // COMMON_CORE_LADDER_H_
