// Names that the controller knows, for completing and correcting what people type.
#ifndef CLI_RPC_KNOWN_NAMES_H_
#define CLI_RPC_KNOWN_NAMES_H_

#include <string>
#include <vector>

#include "cli/rpc/client.h"
#include "grpcpp/support/status.h"

namespace paceline {

// Names of the newest `most` jobs, newest first, without duplicates, followed by their ids. Empty
// if the controller cannot be asked.
std::vector<std::string> JobNames(Client& client, int most);

// Names of up to `most` nodes. Empty if the controller cannot be asked.
std::vector<std::string> NodeNames(Client& client, int most);

// If `status` says that a job or node does not exist: the nearest existing name. Empty if none is
// near, `status` is another error, or the controller cannot be asked.
std::string MeantName(Client& client, const grpc::Status& status);

}  // namespace paceline

#endif  // CLI_RPC_KNOWN_NAMES_H_
