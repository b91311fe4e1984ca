// Explains to people why a job waits or is incomplete, with one sentence per obstacle.
#ifndef CONTROLLER_CORE_SCHEDULE_WHY_H_
#define CONTROLLER_CORE_SCHEDULE_WHY_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/job.h"
#include "controller/core/node/node.h"
#include "controller/core/schedule/schedule.h"

namespace paceline {

struct WhyInput {
  const Job& job;
  const std::map<JobId, Job>& jobs;
  const std::map<NodeName, Node>& nodes;
  const Queues& queues;
  const ScheduleDecision& schedule;  // From the last pass.
  absl::Time now;                    // Wall.
};

// The most important obstacle first; empty: there is none.
std::vector<std::string> FindObstacles(const WhyInput& input);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_WHY_H_
