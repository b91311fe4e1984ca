// Which job or checkpoint a client means.
#ifndef CONTROLLER_RPC_FIND_JOB_H_
#define CONTROLLER_RPC_FIND_JOB_H_

#include <grpcpp/support/status.h>

#include <string>

#include "controller/core/cluster.h"

namespace paceline {

// By an id, a unique prefix of one, or a name, of which the newest job is meant. NOT_FOUND, reason
// JOB_NOT_FOUND; INVALID_ARGUMENT, AMBIGUOUS_JOB.
grpc::Status FindJob(const Cluster& cluster, const std::string& reference, const Job** job);

// Valid until the next event.
struct NamedCheckpoint {
  const Job* job = nullptr;
  const Checkpoint* checkpoint = nullptr;
};

// By JOB (its newest complete one), JOB/STEP (of that step, the newest complete one, else the
// newest) or JOB/STEP.gGENERATION. Errors as above, and NOT_FOUND, CHECKPOINT_NOT_FOUND;
// INVALID_ARGUMENT, CHECKPOINT_NAME_INVALID.
grpc::Status FindCheckpointByName(const Cluster& cluster, const std::string& name,
                                  NamedCheckpoint* found);

// The same for one to start from: not one that is being removed.
grpc::Status FindStartCheckpoint(const Cluster& cluster, const std::string& name,
                                 NamedCheckpoint* found);

}  // namespace paceline

#endif  // CONTROLLER_RPC_FIND_JOB_H_
