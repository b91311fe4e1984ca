// How many failures a job may recover from, and which are hopeless.
//
// At most recovery.max_failures within recovery.window; each lost rank counts, and each time that
// the members had to rendezvous again although none was lost. A rank that fails twice at the same
// step by its own error would do so for ever: that is a crash loop, and nothing is tried any more.
// Nor is it after bad input, or a checkpoint that cannot be read.
#ifndef CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_
#define CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_

#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// Takes the loss of a member into account; once for each.
void CountLoss(Job& job, RankState& member, Moment now);
// The members of the generation could not go on, and none of them was lost.
void CountTrouble(Job& job, Moment now);
// One was, after all: what CountTrouble has counted for the change under way counts no more.
void ForgetTrouble(Job& job);

// Why the job may not recover from the newest failures; empty: it may.
std::string WhyBudgetIsSpent(const Job& job);
// Why it will never get over the loss of this member, which was counted; empty: it may.
std::string WhyHopeless(const Job& job, const RankState& member);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_
