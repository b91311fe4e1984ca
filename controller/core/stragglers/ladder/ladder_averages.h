// A ladder among the ranks of a job: who averages with whom, how often, and what that costs.
//
// Of the levels whose period divides a step only the widest averages. So a level of period P below
// one of period Q does so in 1/P - 1/Q of the steps, the last one in 1/P of them.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_AVERAGES_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_AVERAGES_H_

#include <vector>

#include "common/core/ladder.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/ladder/ladder_model.h"

namespace paceline {

// The ladder's levels, the narrowest first.
std::vector<ModelLevel> LevelsOf(const Ladder& ladder, const std::vector<RankHome>& homes);

// Ranks in the largest of the groups; 1 if there are none.
int LargestGroup(const std::vector<int>& groups);

// Seconds per step, on average: each level's averages take as long as those of its largest group.
double AveragesPerStep(const std::vector<ModelLevel>& levels, const AllReduceCosts& costs);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_AVERAGES_H_
