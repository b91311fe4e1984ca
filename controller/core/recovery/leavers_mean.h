// Decides what becomes of what ranks have learnt by themselves when they leave as planned.
//
// With a ladder, ranks differ between two means of their parameters. One that leaves without
// handing its state over would take with it what it has learnt since the latest mean: it is given
// back (elastic.h), or its seat goes to a trainer that copies another rank. So all ranks of the
// present generation take the mean of their parameters after the step that they have agreed on,
// just before they leave (proto/plan.proto, Membership.averages_first). That needs all of them to
// know how. If such a change is called off although no rank was lost, the next one goes without the
// mean: perhaps that takes longer than a collective may, and the ranks must be able to leave. What
// is lost in either case, or because the change is called off first, the reason says.
#ifndef CONTROLLER_CORE_RECOVERY_LEAVERS_MEAN_H_
#define CONTROLLER_CORE_RECOVERY_LEAVERS_MEAN_H_

#include <string>

#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"

namespace paceline {

struct LeaversMean {
  bool averages_first = false;
  std::string lost;  // What is lost, for people; empty: nothing.
};

// `job`: before `next` begins. If that is not planned, it may call a planned change off.
LeaversMean DecideLeaversMean(const Job& job, const NextGeneration& next);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_LEAVERS_MEAN_H_
