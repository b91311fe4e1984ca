// A ladder among a job's ranks: who averages with whom, how often, and at what cost.
//
// Of the levels whose period divides a step, only the widest averages. So a level of period P below
// one of period Q averages in 1/P - 1/Q of the steps, and the last level in 1/P of them.
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

// Ranks in the largest group; 1 if there are no groups.
int LargestGroup(const std::vector<int>& groups);

// Mean seconds per step. The averages of a level take as long as those of its largest group.
double AveragesPerStep(const std::vector<ModelLevel>& levels, const AllReduceCosts& costs);

// Mean seconds per step for the gradients of groups of these sizes, beyond the backward pass.
// `exchange_s`: what they take among all `ranks`.
double GradientsPerStep(const std::vector<int>& gradient_groups, int ranks, double exchange_s,
                        const AllReduceCosts& costs);

// Whether means of any level end in an outer step.
bool HasOuterStep(const Ladder& ladder);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_AVERAGES_H_
