// What the verbs that do something with nodes have in common: names of several nodes, who asks and
// why, and one answer per node.
#ifndef CLI_VERBS_NODE_ACTION_H_
#define CLI_VERBS_NODE_ACTION_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "cli/program.h"
#include "proto/node.pb.h"

namespace paceline {

struct NodeAction {
  std::vector<std::string> nodes;  // As written.
  std::string reason;
  std::string request_id;
};

// NODE..., --owner, --request-id.
void AddNodeAction(CLI::App& verb, Program& program, NodeAction& action);
void AddReason(CLI::App& verb, std::string& reason);
void AddOwner(CLI::App& verb, Program& program);

// Runs `act` with each name. When a name or the owner cannot be, nothing is done. All that can be
// done is, though another fails; returns the first exit code that is not 0.
int ForEachNode(Program& program, const NodeAction& action,
                const std::function<int(const std::string& name)>& act);

// --request-id, else a new one.
std::string RequestIdOf(const NodeAction& action);

// The node as a line, "a is CORDONED: cordoned by ann: ...", or as JSON.
void TellNode(Program& program, const v1::Node& node);

}  // namespace paceline

#endif  // CLI_VERBS_NODE_ACTION_H_
