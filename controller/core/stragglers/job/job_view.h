// A job as its stragglers are judged by.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_

#include <functional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// A job, and the cluster around it, as they are now.
struct JobView {
  const Job* job = nullptr;
  RemedyFacts facts;
  // By rank: what its node is, for comparing; the same for those that are alike.
  std::vector<std::string> hardware;
  // The node of an order that drains it is to be emptied; of an undo, it no longer is.
  std::function<bool(const NodeName&)> is_drained;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_
