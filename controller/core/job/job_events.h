// Events of the cluster that concern jobs (cluster.h).
#ifndef CONTROLLER_CORE_JOB_JOB_EVENTS_H_
#define CONTROLLER_CORE_JOB_JOB_EVENTS_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/checkpoint/checkpoint.h"
#include "controller/core/job/job.h"

namespace paceline {

struct JobSubmitted {
  JobRequest request;
  std::string submitter = {};  // As Job::submitter.
};
struct CancelRequested {
  JobId job;
  std::string reason;
  absl::Duration grace;
  bool save = false;  // Save first. Requires: RefuseSave has no objection.
};
// Requires: RefuseSave has no objection.
struct SaveRequested {
  JobId job;
  bool now = false;
  std::string directory = {};  // Where to; empty: the job's own.
};
// Requires: RefuseResume has no objection.
struct ResumeRequested {
  JobRequest request;
  std::string from;  // Directory of a checkpoint; empty: the newest complete one.
};
// Requires: RefuseRemoval has no objection.
struct RemovalRequested {
  JobId job;
  CheckpointKey checkpoint;
};
struct PinRequested {
  JobId job;
  CheckpointKey checkpoint;
  bool pinned = false;
};
// As ChangePlan (plan.h).
struct PlanChanged {
  JobId job;
  JobPlan plan;
};
// The job's ranks must leave the node for others, and take no more slots there. Ignored if
// WhyRanksCannotMove objects.
struct ReplacementRequested {
  JobId job;
  NodeName node;
  std::string why;
};
// The ranks may stay, as far as they are still there.
struct ReplacementWithdrawn {
  JobId job;
  NodeName node;
};
// The job's ranks on the node are given up. The job goes on without them, or others take their
// slots on other nodes.
struct RanksGivenUp {
  JobId job;
  NodeName node;
  std::string why;
};
// The job's labels and description become these.
struct LabelsChanged {
  JobId job;
  std::string spec;  // As JobRequest::spec: the job's own, with them.
  std::map<std::string, std::string> labels;
  std::string description;
};
struct ProfileOrdered {
  JobId job;
  JobProfile profile;  // From MakeProfile.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_JOB_EVENTS_H_
