// paceline node lost NODE...
#include <memory>
#include <string>

#include "cli/verbs/node_action.h"
#include "cli/verbs/verbs.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

int DeclareLost(Program& program, const NodeAction& action, const std::string& name) {
  v1::DeclareNodeLostRequest request;
  request.set_name(name);
  request.set_request_id(RequestIdOf(action));
  request.set_owner(program.user());
  request.set_reason(action.reason);
  v1::Node node;
  const grpc::Status status = program.client().DeclareNodeLost(request, &node);
  if (!status.ok()) return program.Fail(status);
  TellNode(program, node);
  return kCliOk;
}

}  // namespace

void AddNodeLost(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand(
      "lost",
      "Declare that nodes that do not answer run nothing any more: their ranks are replaced");
  AddNodeAction(*verb, program, *action);
  AddReason(*verb, action->reason);
  verb->callback([action, &program] {
    program.action = [action, &program] {
      return ForEachNode(program, *action, [&](const std::string& name) {
        return DeclareLost(program, *action, name);
      });
    };
  });
}

}  // namespace paceline
