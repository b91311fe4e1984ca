// Names that the controller knows, for people who type them.
#ifndef CLI_RPC_KNOWN_NAMES_H_
#define CLI_RPC_KNOWN_NAMES_H_

#include <string>
#include <vector>

#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

// The names of the newest `most` jobs, the newest first, each once; then their ids. Empty when they
// cannot be had.
std::vector<std::string> JobNames(Client& client, int most);

// The names of up to `most` nodes. Empty when they cannot be had.
std::vector<std::string> NodeNames(Client& client, int most);

// The name of a job or node that is nearest to the one of which `status` says that there is none;
// empty when nothing is near, or `status` says something else. Asks the controller, which may fail:
// then it is empty too.
std::string MeantName(Client& client, const grpc::Status& status);

}  // namespace paceline

#endif  // CLI_RPC_KNOWN_NAMES_H_
