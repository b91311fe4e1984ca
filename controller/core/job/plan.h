// Changes of what a job's ranks agree on: its ladder, the mode of Slipstream, or whether it trains
// by Slipstream at all.
//
// Each change has a plan epoch above all that were before. The ranks prepare it and take it up
// by themselves, all at the same step; the next change has to wait until all of them have told
// so, so that all train by the same plan while they prepare the next. Or until one has told that
// it could not prepare the epoch: then none ever takes that up, and the next replaces it. A job
// that is still queued starts with the newest one.
//
// To Slipstream, and from it, ranks change with a new generation only: the plan waits for that,
// which is a planned one of the same ranks (planned_change.h). It is given up if another generation
// has to begin before, or has to follow before all train by it: they go on by the former plan.
#ifndef CONTROLLER_CORE_JOB_PLAN_H_
#define CONTROLLER_CORE_JOB_PLAN_H_

#include <optional>

#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// Whether a person can change the job's ladder, or mode, now: JOB_ENDED, STRATEGY_FIXED,
// PLAN_PENDING.
std::optional<Refusal> RefuseLadder(const Job& job);
std::optional<Refusal> RefuseMode(const Job& job);

// The newest plan is still to be taken up.
bool IsPlanPending(const Job& job);

// Requires: the plan before is not pending, or could not be prepared, or is taken back. The epoch
// of `plan` does not matter.
void ChangePlan(Job& job, JobPlan plan);

// With a generation that begins: its epoch, and its plan.
void TakePlanOver(Job& job, bool planned);

// What all ranks train by, as far as they have told; the epoch is 0 before.
struct ActivePlan {
  PlanEpoch epoch;
  int64_t since_step = 0;
};
ActivePlan FindActivePlan(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_PLAN_H_
