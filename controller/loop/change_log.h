// What the controller writes to its log of what changes: a line for each state that a job, a node,
// a decision about stragglers or the automation has come to, for each generation of a job, and for
// each checkpoint that is complete or has failed.
//
//   job_state job=job-1 state=RECOVERING reason="rank 1 on w1: killed by SIGKILL"
//   job_generation job=job-1 generation=2 cause=failure ranks=4 reason="rank 1 on w1: ..."
//
// `cause`: start (also a new one), failure (ranks were lost), planned (ranks moved, or were added).
//
// Lines are made when the cluster has taken an event in, since the next one may change things
// again; and written when that is durable.
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
  // All that was stored counts as told. `cluster` has taken it over.
  void Restore(const Cluster& cluster,
               const std::map<JobId, std::vector<RemedyDecision>>& decisions);

  // What there is to tell of what was just done. A decision first, then the jobs and nodes.
  std::vector<ChangeLine> Look(const Cluster& cluster, const Stragglers& stragglers,
                               const Actions& actions, const StragglerActions& decided);

  static void Write(const std::vector<ChangeLine>& lines);

 private:
  // Of a job, as last told.
  struct Told {
    std::optional<JobState> state;
    Generation generation{0};
    int64_t committed = 0;
    std::string save_error;
    std::map<int64_t, DecisionState> decisions;
  };

  static Told ToldOf(const Job& job);
  static void LookAtJob(const Job& job, Told& told, std::vector<ChangeLine>& lines);
  void LookAtDecision(const StragglerActions::Key& key, const RemedyDecision& decision,
                      std::vector<ChangeLine>& lines);
  void LookAtNode(const Node& node, std::vector<ChangeLine>& lines);

  std::map<JobId, Told> jobs_;
  std::map<NodeName, NodeState> nodes_;
};

}  // namespace paceline

#endif  // CONTROLLER_LOOP_CHANGE_LOG_H_
