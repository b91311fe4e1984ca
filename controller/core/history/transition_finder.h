// Finds what has happened to jobs: compares each with what was known of it. Whatever changes a job
// cannot forget to report it. History, log and the metrics of decisions are made of this.
//
// Between two looks several things may have happened, such as a stop and the next start. Each has
// a transition.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_HISTORY_TRANSITION_FINDER_H_
#define CONTROLLER_CORE_HISTORY_TRANSITION_FINDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "common/core/ids.h"
#include "common/core/labels.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_transition.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

// What is known of one job.
class KnownJob {
 public:
  // For a job that is new: the next look says that it was submitted.
  KnownJob() = default;
  // For a job from the store, of which everything is known.
  explicit KnownJob(const Job& job);

  // What has happened to it since the last look.
  std::vector<JobTransition> Look(const Job& job);

 private:
  using News = std::vector<JobTransition>;

  // The newest change of membership.
  struct KnownChange {
    int64_t number = 0;  // JobRecovery::changes.
    bool has_ended = true;
  };

  void LookAtLabels(const Job& job, News& news) const;
  void LookAtCheckpoints(const Job& job, News& news) const;
  void LookAtStall(const Job& job, News& news) const;
  void LookAtMembership(const Job& job, News& news) const;
  void LookAtPlan(const Job& job, News& news) const;
  void LookAtStart(const Job& job, News& news) const;
  void LookAtState(const Job& job, News& news) const;
  void LookAtTroubles(const Job& job, News& news) const;
  void Remember(const Job& job);

  bool known_ = false;
  JobLabels labels_;
  std::string description_;
  JobState state_ = JobState::kQueued;
  std::string stops_for_;  // The job's reason when it began to stop.
  Generation started_{0};  // The generation with which the newest start began.
  int restarts_ = 0;
  KnownChange change_;
  std::set<NodeName> vacated_;         // Nodes that its ranks will leave.
  std::set<NodeName> waiting_drains_;  // JobRecovery::waiting_drains.
  std::string strategy_;               // The plan's, serialized.
  PlanVersion pending_{0};             // A plan whose taking up is still to be seen; 0: none.
  int64_t committed_ = 0;
  int64_t failed_ = 0;
  std::string save_error_;
  bool stops_when_saved_ = false;
  int64_t evaluated_ = 0;  // Steps.
  bool stalled_ = false;
  int64_t spare_failures_ = 0;  // JobRecovery::spare_failures_reported.
  CopyTrouble copy_trouble_ = CopyTrouble::kNone;
  std::vector<std::string> collectives_;  // Findings.
  bool slipstream_impossible_ = false;
};

class TransitionFinder {
 public:
  // Takes all that was stored as known, by job. Call it after the cluster was restored and before
  // the stragglers are.
  void Restore(const Cluster& cluster,
               const std::map<JobId, std::vector<RemedyDecision>>& decisions);

  // What has happened to the jobs in `actions` and `decided`, and verdicts about these jobs.
  JobTransitions Look(const Cluster& cluster, const Stragglers& stragglers, const Actions& actions,
                      const StragglerActions& decided);

  // Whether there are verdicts about the job's ranks that no look has found.
  bool HasNewVerdicts(const JobId& job, const Stragglers& stragglers) const;
  // These verdicts alone. Requires: the job exists.
  JobTransitions LookAtVerdicts(const JobId& job, const Stragglers& stragglers);

 private:
  struct Known {
    KnownJob job;
    std::map<int64_t, DecisionState> decisions;
    int64_t verdicts = 0;  // ReportedVerdicts::count.
  };

  // Each batch of steps looks its job up here. Never iterated: it has no order.
  absl::node_hash_map<JobId, Known> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_TRANSITION_FINDER_H_
