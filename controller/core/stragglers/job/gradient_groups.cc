#include "controller/core/stragglers/job/gradient_groups.h"

#include <algorithm>

namespace paceline {

std::vector<int> GradientGroups(const JobStrategy& strategy, const std::vector<RankHome>& homes) {
  if (!strategy.has_ladder) return {};
  std::vector<int> groups =
      strategy.gradient_group_size == 0
          ? LadderGroups(LadderScope::kNode, 0, homes)
          : LadderGroups(LadderScope::kSize, strategy.gradient_group_size, homes);
  const bool alone = std::all_of(groups.begin(), groups.end(), [](int size) { return size == 1; });
  return alone ? std::vector<int>() : groups;
}

}  // namespace paceline
