// Finds the job or checkpoint that a client means. A job that the caller may not see is treated as
// missing.
#ifndef CONTROLLER_API_SERVICES_FIND_JOB_H_
#define CONTROLLER_API_SERVICES_FIND_JOB_H_

#include <grpcpp/support/status.h>

#include <string>

#include "common/identity/principal.h"
#include "controller/core/cluster/cluster.h"

namespace paceline {

// Whether the caller may see a job of this submitter: submitters see only their own.
bool MaySee(const Principal& caller, const std::string& submitter);

// Checks the repeat of a request about this job: REQUEST_ID_REUSED if the caller may not see the
// job, as the request was somebody else's.
grpc::Status CheckRepeat(const Principal& caller, const Cluster& cluster, const JobId& job);

// Finds a job by an id, a unique prefix of one, or a name (the newest job of that name). NOT_FOUND,
// reason JOB_NOT_FOUND; INVALID_ARGUMENT, AMBIGUOUS_JOB.
grpc::Status FindJob(const Principal& caller, const Cluster& cluster, const std::string& reference,
                     const Job** job);

// Valid until the next event.
struct NamedCheckpoint {
  const Job* job = nullptr;
  const Checkpoint* checkpoint = nullptr;
};

// Finds a checkpoint by JOB (its newest complete one), JOB/STEP (of that step, the newest complete
// one, else the newest) or JOB/STEP.gGENERATION. Errors as above, and NOT_FOUND,
// CHECKPOINT_NOT_FOUND; INVALID_ARGUMENT, CHECKPOINT_NAME_INVALID.
grpc::Status FindCheckpointByName(const Principal& caller, const Cluster& cluster,
                                  const std::string& name, NamedCheckpoint* found);

// The same for a checkpoint to start from, which must not be one that is being removed.
grpc::Status FindStartCheckpoint(const Principal& caller, const Cluster& cluster,
                                 const std::string& name, NamedCheckpoint* found);

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_FIND_JOB_H_
