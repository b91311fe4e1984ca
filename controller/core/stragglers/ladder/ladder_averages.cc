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

double GradientsPerStep(const std::vector<int>& gradient_groups, int ranks, double exchange_s,
                        const AllReduceCosts& costs) {
  const int shared = LargestGroup(gradient_groups);
  if (shared < 2 || costs.Of(ranks) <= 0) return 0;
  return exchange_s * costs.Of(shared) / costs.Of(ranks);
}

bool HasOuterStep(const Ladder& ladder) {
  return std::any_of(ladder.begin(), ladder.end(),
                     [](const LadderLevel& level) { return level.outer; });
}

}  // namespace paceline
