// The changes of jobs, without gaps, however often the connection is lost.
#ifndef CLI_RPC_JOB_WATCH_H_
#define CLI_RPC_JOB_WATCH_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"
#include "proto/job.pb.h"

namespace paceline {

struct JobWatch {
  // Full id; empty: all jobs.
  std::string job_id;
  absl::Time deadline = absl::InfiniteFuture();
  // First each present job, then each change; a state that was seen is not shown again.
  // False ends the watch.
  std::function<bool(const v1::JobEvent&)> each;
  // The controller is away; told once per outage. The watch goes on when it is back.
  std::function<void(const grpc::Status&)> on_outage;
};

// OK when `each` returned false; CANCELLED when interrupted; DEADLINE_EXCEEDED after
// the deadline; UNAVAILABLE when the controller was never there; else what it answered.
grpc::Status WatchJobs(Client& client, const JobWatch& watch);

}  // namespace paceline

#endif  // CLI_RPC_JOB_WATCH_H_
