// Names that the controller knows, for people who type them.
#ifndef CLI_RPC_KNOWN_NAMES_H_
#define CLI_RPC_KNOWN_NAMES_H_

#include <string>
#include <vector>

#include "cli/rpc/client.h"

namespace paceline {

// The names of the newest `most` jobs, the newest first, each once; then their ids. Empty when they
// cannot be had.
std::vector<std::string> JobNames(Client& client, int most);

// The names of up to `most` nodes. Empty when they cannot be had.
std::vector<std::string> NodeNames(Client& client, int most);

}  // namespace paceline

#endif  // CLI_RPC_KNOWN_NAMES_H_
