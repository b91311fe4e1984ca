// Changes of what a job's ranks agree on: its ladder, its Slipstream mode, or whether it trains by
// Slipstream at all.
//
// Each change has a plan version above all earlier ones. The ranks prepare it, and take it up all
// at the same step. The next change must wait until all have reported that, so that all train by
// the same plan while they prepare another; or until one has reported that it could not prepare the
// version, which is then never taken up, and which the next change replaces. A queued job starts
// with the newest plan.
//
// Ranks change to or from Slipstream only with a new generation, so the plan waits for a planned
// generation of the same ranks (planned_change.h). The plan is given up, and the ranks go on by the
// former one, if another generation must begin first, or must follow before all train by the plan.
#ifndef CONTROLLER_CORE_JOB_PLAN_H_
#define CONTROLLER_CORE_JOB_PLAN_H_

#include <optional>

#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// Whether a person cannot change the job's ladder, or its mode, now: JOB_ENDED, STRATEGY_FIXED,
// PLAN_PENDING.
std::optional<Refusal> RefuseLadder(const Job& job);
std::optional<Refusal> RefuseMode(const Job& job);

// Whether ranks have yet to take up the newest plan.
bool IsPlanPending(const Job& job);

// Changes the plan; the version of `plan` does not matter. Requires: the plan before is not
// pending, could not be prepared, or is taken back.
void ChangePlan(Job& job, JobPlan plan);

// Gives a generation that begins its plan, under the next version.
void TakePlanOver(Job& job, bool planned);

// From now on, the job's ranks go only to nodes whose trainers know its plan: a ladder that it was
// given later may have outer steps, or send numbers in newer formats.
void PlaceByPlan(Job& job);

// The plan that all ranks are known to train by; the version is 0 before there is one.
struct ActivePlan {
  PlanVersion version;
  int64_t since_step = 0;
};
ActivePlan FindActivePlan(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_PLAN_H_
