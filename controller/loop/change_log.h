// Log lines about changes: one for each new state of a job, a node, a decision about stragglers or
// the automation, for each generation of a job, and for each checkpoint that completes or fails.
//
//   job_state job=job-1 state=RECOVERING reason="rank 1 on w1: killed by SIGKILL"
//   job_generation job=job-1 generation=2 cause=failure ranks=4 reason="rank 1 on w1: ..."
//
// `cause`: start (or restart), failure (ranks were lost), planned (ranks moved, or were added).
//
// Lines are made right after an event, since the next event may change things again, and are
// written once the event is durable.
#ifndef CONTROLLER_LOOP_CHANGE_LOG_H_
#define CONTROLLER_LOOP_CHANGE_LOG_H_

#include <string>
#include <vector>

#include "common/log.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_transition.h"

namespace paceline {

struct ChangeLine {
  LogLevel level;
  std::string text;
};

// The lines about what was just done: to jobs, then to nodes and the automation.
std::vector<ChangeLine> ChangeLines(const Cluster& cluster, const JobTransitions& happened,
                                    const Actions& actions);

void WriteLines(const std::vector<ChangeLine>& lines);

}  // namespace paceline

#endif  // CONTROLLER_LOOP_CHANGE_LOG_H_
