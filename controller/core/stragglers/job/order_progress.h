// What has become of an order, as the job shows.
//
// An order is done when all ranks train by a later plan version (ladder, strategy), or in a later
// generation without a rank on the node. It has failed when the job shows that it will not come
// about: what it asked for was refused or taken back, or the plan could not be prepared.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_ORDER_PROGRESS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_ORDER_PROGRESS_H_

#include <string>

#include "controller/core/stragglers/job/job_view.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

enum class OrderState { kUnderWay, kDone, kFailed };

struct OrderProgress {
  OrderState state = OrderState::kUnderWay;
  std::string error = {};  // One line if it failed.
};

// Requires: IsInFlight(decision), and it is a decision of the job.
OrderProgress ProgressOf(const RemedyDecision& decision, const JobView& view);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_ORDER_PROGRESS_H_
