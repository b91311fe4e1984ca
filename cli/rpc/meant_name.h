// "Did you mean ...?" about names that the controller does not know.
#ifndef CLI_RPC_MEANT_NAME_H_
#define CLI_RPC_MEANT_NAME_H_

#include <string>

#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

// The name of a job or node that is nearest to the one of which `status` says that there is none;
// empty when nothing is near, or `status` says something else. Asks the controller, which may fail:
// then it is empty too.
std::string MeantName(Client& client, const grpc::Status& status);

}  // namespace paceline

#endif  // CLI_RPC_MEANT_NAME_H_
