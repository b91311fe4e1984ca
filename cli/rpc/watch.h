// The changes that a watch brings, without gaps, however often the connection is lost.
#ifndef CLI_RPC_WATCH_H_
#define CLI_RPC_WATCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

template <typename Event>
struct ChangeWatch {
  absl::Time deadline = absl::InfiniteFuture();
  // Only changes after this revision, of a list. 0: first each present object.
  int64_t after_revision = 0;
  // First each present object, then each change; a state that was seen is not shown again.
  // False ends the watch.
  std::function<bool(const Event&)> each;
  // The controller is away; told once per outage. The watch goes on when it is back.
  std::function<void(const grpc::Status&)> on_outage;
  // Changes were missed and are not kept any more: what is present follows, as at the beginning,
  // and then what has gone of that which was shown before. May be empty.
  std::function<void()> on_gap;
};

struct JobWatch : ChangeWatch<v1::JobEvent> {
  // Full id; empty: all jobs.
  std::string job_id;
};

// OK when `each` returned false; CANCELLED when interrupted; DEADLINE_EXCEEDED after the deadline;
// UNAVAILABLE when the controller was never there; else what it answered.
grpc::Status WatchJobs(Client& client, const JobWatch& watch);
grpc::Status WatchNodes(Client& client, const ChangeWatch<v1::NodeEvent>& watch);

}  // namespace paceline

#endif  // CLI_RPC_WATCH_H_
