// What people were last shown of a job, and what is new since. The events are derived from the
// job's state, so that no code that changes it can forget to add them.
//
// Between two looks several things may have happened, such as a stop and the next start. Each has
// an event, in the order in which they happen to any job.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_HISTORY_REPORTED_JOB_H_
#define CONTROLLER_CORE_HISTORY_REPORTED_JOB_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/history/event_history.h"
#include "controller/core/job/job.h"

namespace paceline {

class ReportedJob {
 public:
  // For a job of which nothing was shown: the next look says that it was submitted.
  ReportedJob() = default;
  // For a job from the store, of which everything was shown.
  explicit ReportedJob(const Job& job);

  // What has happened since the last look, oldest first: kind, warning and text.
  std::vector<JobLifeEvent> Look(const Job& job);

 private:
  // The newest change of membership.
  struct ReportedChange {
    int64_t number = 0;  // JobRecovery::changes.
    bool has_ended = true;
  };
  // What a look finds.
  struct News;

  void LookAtState(const Job& job, News& news) const;
  void LookAtStart(const Job& job, News& news) const;
  void LookAtMembership(const Job& job, News& news) const;
  void LookAtPlan(const Job& job, News& news) const;
  void LookAtCheckpoints(const Job& job, News& news) const;
  void LookAtEvaluation(const Job& job, News& news) const;
  void LookAtStall(const Job& job, News& news) const;
  void LookAtCollectives(const Job& job, News& news) const;
  void Remember(const Job& job);

  bool known_ = false;
  JobState state_ = JobState::kQueued;
  std::string stops_for_;  // The job's reason when it began to stop.
  Generation started_{0};  // The generation with which the newest start began.
  int restarts_ = 0;
  ReportedChange change_;
  std::set<NodeName> vacated_;  // Nodes that its ranks will leave.
  std::string strategy_;        // The plan's, serialized.
  PlanVersion pending_{0};      // A plan whose taking up is still to be shown; 0: none.
  int64_t committed_ = 0;
  int64_t failed_ = 0;
  bool stops_when_saved_ = false;
  int64_t evaluated_ = 0;  // Steps.
  bool stalled_ = false;
  std::vector<std::string> collectives_;  // Findings.
  bool reported_no_slipstream_ = false;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_REPORTED_JOB_H_
