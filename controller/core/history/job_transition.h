// What has happened to a job, as types. TransitionFinder finds it, once; the job's history
// (event_text.h) and the log (loop/change_log.h) only put it into words.
//
// What is not in a transition itself is in the job, which is as it was when the transition was
// found: describe transitions before the next event.
#ifndef CONTROLLER_CORE_HISTORY_JOB_TRANSITION_H_
#define CONTROLLER_CORE_HISTORY_JOB_TRANSITION_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery_state.h"
#include "controller/core/stragglers/job/reported_verdicts.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {
namespace transition {

// Its life.
struct Submitted {};
struct Resumed {};      // It had ended; it is queued again.
struct StartsAgain {    // It is queued again, or starts again at once.
  bool failed = false;  // Because ranks had failed; otherwise to make way.
};
struct Started {};  // Its ranks were placed: generation JobRecovery::started.
struct StateChanged {
  JobState from = JobState::kQueued;  // Of a job that was not known: kQueued.
  // It stopped until now, and its reason is the one with which it began to stop.
  bool same_reason = false;
};
struct StopAfterSaveAsked {};  // It is to end once a checkpoint is saved.
struct LabelsChanged {
  std::vector<std::string> changes;  // "team=vision", "model removed"; by key.
  bool description = false;          // That is another one, too.
};

// Its ranks.
struct MembershipChanged {  // A change began, and may have ended too.
  MembershipChange change;
};
struct MembershipSettled {  // Its ranks train on after the change.
  MembershipChange change;
};
struct RanksMustLeave {
  NodeName node;
  std::string why;
};
struct DrainWaits {  // JobRecovery::waiting_drains.
  NodeName node;
  std::string why;
};
struct SpareFailed {};  // JobRecovery::spare_failure.
struct Stalled {};      // No rank makes a step.
struct StallEnded {};
struct CollectivesFound {};  // JobCollectives::findings are others, and there are some.

// Its training.
struct Evaluated {};
struct PlanDecided {};
struct PlanTakenUp {
  PlanVersion version{0};
  int64_t since_step = 0;
};
struct PlanNotTakenUp {
  PlanVersion version{0};
  Rank rank;  // The first that could not prepare it.
  NodeName node;
  std::string error;
};
struct SlipstreamImpossible {  // `auto` has no choice for this model.
  std::string why;
};

// Its checkpoints.
struct CheckpointCompleted {};  // NewestComplete(job).
struct CheckpointFailed {};
struct CheckpointErrorChanged {};  // JobCheckpoints::last_error is another, and there is one.
// Copies in host memory.
struct CopiesInTrouble {};  // JobCopies::trouble is another, and there is one.
struct CopiesInTime {};     // It is over.

// Its stragglers.
struct VerdictFound {
  ReportedVerdict verdict;
};
struct DecisionChanged {  // It is new, or its state is another.
  RemedyDecision decision;
};

}  // namespace transition

using JobTransition = std::variant<
    transition::Submitted, transition::Resumed, transition::StartsAgain, transition::Started,
    transition::StateChanged, transition::StopAfterSaveAsked, transition::LabelsChanged,
    transition::MembershipChanged, transition::MembershipSettled, transition::RanksMustLeave,
    transition::DrainWaits, transition::SpareFailed, transition::Stalled, transition::StallEnded,
    transition::CollectivesFound, transition::Evaluated, transition::PlanDecided,
    transition::PlanTakenUp, transition::PlanNotTakenUp, transition::SlipstreamImpossible,
    transition::CheckpointCompleted, transition::CheckpointFailed,
    transition::CheckpointErrorChanged, transition::CopiesInTrouble, transition::CopiesInTime,
    transition::VerdictFound, transition::DecisionChanged>;

// By job; of each job in the order in which it happens to any job: a verdict leads to a decision,
// and that to a change of the job.
using JobTransitions = std::map<JobId, std::vector<JobTransition>>;

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_JOB_TRANSITION_H_
