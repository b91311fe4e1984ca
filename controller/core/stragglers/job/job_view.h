// What a job's stragglers are judged by.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_

#include <functional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// A job and the cluster around it, as they are now.
struct JobView {
  const Job* job = nullptr;
  RemedyFacts facts;
  // By rank: a description of its node for comparisons, equal for nodes that are alike.
  std::vector<std::string> hardware;
  // Whether the node is being emptied: true for an order that drains it, no longer after an undo.
  std::function<bool(const NodeName&)> is_drained;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_JOB_VIEW_H_
