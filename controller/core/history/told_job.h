// What people were told of a job last, and what there is to tell since: events that are read off
// the job, so that whatever changes it cannot forget to tell.
//
// Several things may have happened between two looks, such as a stop and the next start; each has
// an event, in the order in which they happen to any job.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_HISTORY_TOLD_JOB_H_
#define CONTROLLER_CORE_HISTORY_TOLD_JOB_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/history/event_history.h"
#include "controller/core/job/job.h"

namespace paceline {

class ToldJob {
 public:
  // Of a job that nothing was told of: the next look tells that it was submitted.
  ToldJob() = default;
  // Of one out of a store: all of it was told.
  explicit ToldJob(const Job& job);

  // What has happened since the last look, oldest first: kind, warning and text.
  std::vector<JobLifeEvent> Look(const Job& job);

 private:
  // Of the newest change of membership.
  struct ToldChange {
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
  std::string stops_for_;  // Its reason, when it began to stop.
  Generation started_{0};  // That the newest start began.
  int restarts_ = 0;
  ToldChange change_;
  std::set<NodeName> vacated_;  // That its ranks will move off.
  std::string strategy_;        // Of the plan, serialized.
  PlanEpoch pending_{0};        // Of a plan of which it is to be told who takes it up; 0: none.
  int64_t committed_ = 0;
  int64_t failed_ = 0;
  bool stops_when_saved_ = false;
  int64_t evaluated_ = 0;  // Steps.
  bool stalled_ = false;
  std::vector<std::string> collectives_;  // Findings.
  bool told_no_slipstream_ = false;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_TOLD_JOB_H_
