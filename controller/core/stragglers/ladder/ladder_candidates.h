// Which ladders a job could train by, and how far they let its ranks drift apart.
//
// The groups of a candidate follow the job's nodes and racks: none holds part of a node or rack
// together with something else. Periods are powers of 2 up to the longest one allowed. Levels
// narrower than the gradient groups would do nothing and are left out.
//
// Drift is expressed as the equivalent period: many ranks that average all parameters every so many
// steps, without gradient groups, drift as far on average. Let each step add noise of variance 1 to
// the parameters of each rank. With groups of g_l ranks in level l and gradient groups of g_0, the
// mean of a group of level l - 1 departs from that of its group of level l by a variance that grows
// by 1/g_{l-1} - 1/g_l each step for a period P_l; its average over the period is (P_l - 1) / 2
// times that. Plain averaging every P steps comes to (P - 1) / 2, so that
//
//   equivalent period = 1 + sum over levels of (1/g_{l-1} - 1/g_l) (P_l - 1)
//
// It is never longer than the longest period, as the convergence bound of hierarchical SGD lies
// between those of its shortest and longest period (J. Wang et al., "Demystifying why local
// aggregation helps", AAAI 2022, arXiv 2010.12998).
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_CANDIDATES_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_CANDIDATES_H_

#include <cstdint>
#include <vector>

#include "common/core/ladder.h"

namespace paceline {

// `gradient_groups`: sizes, none or adding up to the ranks of `homes` (required).
double EquivalentPeriod(const Ladder& ladder, const std::vector<RankHome>& homes,
                        const std::vector<int>& gradient_groups);

struct CandidateLimits {
  int64_t max_period = 8;
  int max_levels = 3;
};

// Without the synchronous one. None if there is one rank, or one gradient group holds all ranks.
std::vector<Ladder> CandidateLadders(const std::vector<RankHome>& homes,
                                     const std::vector<int>& gradient_groups,
                                     const CandidateLimits& limits);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_CANDIDATES_H_
