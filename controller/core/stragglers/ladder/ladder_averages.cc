#include "controller/core/stragglers/ladder/ladder_averages.h"

#include <algorithm>
#include <cstddef>

namespace paceline {

std::vector<ModelLevel> LevelsOf(const Ladder& ladder, const std::vector<RankHome>& homes) {
  std::vector<ModelLevel> levels;
  for (const LadderLevel& level : ladder) {
    levels.push_back({level.period, LadderGroups(level.scope, level.size, homes)});
  }
  return levels;
}

int LargestGroup(const std::vector<int>& groups) {
  return groups.empty() ? 1 : *std::max_element(groups.begin(), groups.end());
}

double AveragesPerStep(const std::vector<ModelLevel>& levels, const AllReduceCosts& costs) {
  double seconds = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    double rate = 1.0 / static_cast<double>(levels[i].period);
    if (i + 1 < levels.size()) rate -= 1.0 / static_cast<double>(levels[i + 1].period);
    seconds += rate * costs.Of(LargestGroup(levels[i].groups));
  }
  return seconds;
}

}  // namespace paceline
