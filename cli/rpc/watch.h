// Watches without gaps, however often the connection is lost.
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
  // Only changes after this revision, which comes from a list. 0: first each present object.
  int64_t after_revision = 0;
  // Called for each present object, then for each change; never twice for the same state. Returns
  // false to end the watch.
  std::function<bool(const Event&)> each;
  // Called once per outage, when the controller is away. The watch continues when it is back.
  std::function<void(const grpc::Status&)> on_outage;
  // Called when changes were missed that are no longer kept: the present objects follow as at the
  // beginning, then the deletions of those shown before that are gone. May be empty.
  std::function<void()> on_gap;
};

struct JobWatch : ChangeWatch<v1::JobEvent> {
  // Full id; empty: all jobs.
  std::string job_id;
};

// OK if `each` returned false; CANCELLED if interrupted; DEADLINE_EXCEEDED after the deadline;
// UNAVAILABLE if the controller was never there; else the controller's error.
grpc::Status WatchJobs(Client& client, const JobWatch& watch);
grpc::Status WatchNodes(Client& client, const ChangeWatch<v1::NodeEvent>& watch);

}  // namespace paceline

#endif  // CLI_RPC_WATCH_H_
