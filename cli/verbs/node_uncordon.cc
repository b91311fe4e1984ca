// paceline node uncordon NODE...
#include <memory>
#include <string>

#include "cli/verbs/node_action.h"
#include "cli/verbs/verbs.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

int UncordonNode(Program& program, const NodeAction& action, const std::string& name) {
  v1::UncordonNodeRequest request;
  request.set_name(name);
  request.set_request_id(RequestIdOf(action));
  request.set_owner(program.user());
  v1::Node node;
  const grpc::Status status = program.client().UncordonNode(request, &node);
  if (!status.ok()) return program.Fail(status);
  TellNode(program, node);
  return kCliOk;
}

}  // namespace

void AddNodeUncordon(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand("uncordon", "Take your own cordon of nodes away");
  AddNodeAction(*verb, program, *action);
  verb->callback([action, &program] {
    program.action = [action, &program] {
      return ForEachNode(program, *action, [&](const std::string& name) {
        return UncordonNode(program, *action, name);
      });
    };
  });
}

}  // namespace paceline
