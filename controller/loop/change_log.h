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
//
// Thread-compatible.
#ifndef CONTROLLER_LOOP_CHANGE_LOG_H_
#define CONTROLLER_LOOP_CHANGE_LOG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/log.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

struct ChangeLine {
  LogLevel level;
  std::string text;
};

class ChangeLog {
 public:
  // Takes all that was stored as already logged. Requires: `cluster` has been restored from it.
  void Restore(const Cluster& cluster,
               const std::map<JobId, std::vector<RemedyDecision>>& decisions);

  // Returns the lines about what was just done: a decision first, then jobs and nodes.
  std::vector<ChangeLine> Look(const Cluster& cluster, const Stragglers& stragglers,
                               const Actions& actions, const StragglerActions& decided);

  static void Write(const std::vector<ChangeLine>& lines);

 private:
  // What was last logged of a job.
  struct Reported {
    std::optional<JobState> state;
    Generation generation{0};
    int64_t committed = 0;
    std::string save_error;
    std::map<int64_t, DecisionState> decisions;
  };

  static Reported ReportedOf(const Job& job);
  static void LookAtJob(const Job& job, Reported& reported, std::vector<ChangeLine>& lines);
  void LookAtDecision(const StragglerActions::Key& key, const RemedyDecision& decision,
                      std::vector<ChangeLine>& lines);
  void LookAtNode(const Node& node, std::vector<ChangeLine>& lines);

  std::map<JobId, Reported> jobs_;
  std::map<NodeName, NodeState> nodes_;
};

}  // namespace paceline

#endif  // CONTROLLER_LOOP_CHANGE_LOG_H_
