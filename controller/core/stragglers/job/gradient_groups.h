// Who exchanges gradients with whom while a ladder is in force.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_GRADIENT_GROUPS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_GRADIENT_GROUPS_H_

#include <vector>

#include "common/core/ladder.h"
#include "controller/core/job/job.h"

namespace paceline {

// Sizes of the groups of consecutive ranks. Empty: no part of the ranks exchanges gradients.
std::vector<int> GradientGroups(const JobStrategy& strategy, const std::vector<RankHome>& homes);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_GRADIENT_GROUPS_H_
