// Checks what people and the automation ask of nodes; reports every problem at once.
#ifndef CONTROLLER_API_SERVICES_NODE_REQUESTS_H_
#define CONTROLLER_API_SERVICES_NODE_REQUESTS_H_

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job_spec/job_spec.h"
#include "proto/node.pb.h"

namespace paceline {

// Until a drain becomes DRAIN_NOW, unless the request says otherwise.
inline constexpr absl::Duration kDefaultDrainDeadline = absl::Hours(1);

// Checks who asks. `person`: the automation must not ask for this.
std::vector<SpecProblem> CheckOwner(const std::string& owner, bool person);
std::vector<SpecProblem> CheckReason(const std::string& reason);

// INVALID_ARGUMENT, reason REQUEST_INVALID; OK without problems.
grpc::Status RequestError(const std::vector<SpecProblem>& problems);

grpc::Status CheckRequest(const v1::CordonNodeRequest& request, absl::Time wall_now);
grpc::Status CheckRequest(const v1::DrainNodeRequest& request);
grpc::Status CheckRequest(const v1::DeclareNodeLostRequest& request);

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_NODE_REQUESTS_H_
