// How many failures a job may recover from, and which failures are hopeless.
//
// A job may have at most recovery.max_failures within recovery.window. Each lost rank counts, and
// so does each time that the members must rendezvous again although none was lost. A rank that
// fails twice at the same step by its own error would do so for ever: that is a crash loop, after
// which nothing more is tried. The same holds after bad input, or a checkpoint that cannot be read.
// One that ends before it trains fails at no step: it counts, but is never in a crash loop.
#ifndef CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_
#define CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_

#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// Counts the loss of a member, once.
void CountLoss(Job& job, RankState& member, Moment now);
// Counts that the members of the generation could not go on although none was lost.
void CountTrouble(Job& job, Moment now);
// A member was lost after all: takes back what CountTrouble counted for the change under way.
void ForgetTrouble(Job& job);

// Why the job may not recover from the newest failures; empty: it may.
std::string WhyBudgetIsSpent(const Job& job);
// Why the job will never get over this member's loss, which was counted; empty: it may.
std::string WhyHopeless(const Job& job, const RankState& member);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_FAILURE_BUDGET_H_
