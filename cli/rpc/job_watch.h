// The changes of jobs: watch_changes.h.
#ifndef CLI_RPC_JOB_WATCH_H_
#define CLI_RPC_JOB_WATCH_H_

#include <string>

#include "cli/rpc/client.h"
#include "cli/rpc/watch_changes.h"
#include "grpcpp/support/status.h"
#include "proto/job.pb.h"

namespace paceline {

struct JobWatch : ChangeWatch<v1::JobEvent> {
  // Full id; empty: all jobs.
  std::string job_id;
};

// As WatchChanges.
grpc::Status WatchJobs(Client& client, const JobWatch& watch);

}  // namespace paceline

#endif  // CLI_RPC_JOB_WATCH_H_
