// Changes of what a job's ranks agree on: its ladder, or the mode of Slipstream.
//
// Each change has a plan epoch above all that were before. The ranks prepare it and take it up
// by themselves, all at the same step; the next change has to wait until all of them have told
// so, so that all train by the same plan while they prepare the next. Or until one has told that
// it could not prepare the epoch: then none ever takes that up, and the next replaces it. A job
// that is still queued starts with the newest one.
#ifndef CONTROLLER_CORE_PLAN_H_
#define CONTROLLER_CORE_PLAN_H_

#include <optional>
#include <string>

#include "controller/core/job.h"
#include "controller/core/refusal.h"

namespace paceline {

// Whether the job's ladder, or mode, can be changed now: JOB_ENDED, STRATEGY_FIXED, PLAN_PENDING.
std::optional<Refusal> RefuseLadder(const Job& job);
std::optional<Refusal> RefuseMode(const Job& job);

// Requires: RefuseLadder or RefuseMode has no objection. `strategy` is a serialized
// paceline.v1.Strategy with that ladder and pace (JobStrategy).
void ChangePlan(Job& job, std::string strategy, Ladder ladder, bool own_pace = false);

// What all ranks train by, as far as they have told; the epoch is 0 before.
struct ActivePlan {
  PlanEpoch epoch;
  int64_t since_step = 0;
};
ActivePlan FindActivePlan(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_PLAN_H_
