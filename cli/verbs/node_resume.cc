// paceline node resume NODE...
#include <memory>
#include <string>

#include "cli/verbs/node_action.h"
#include "cli/verbs/verbs.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

int ResumeNode(Program& program, const NodeAction& action, const std::string& name) {
  v1::ResumeNodeRequest request;
  request.set_name(name);
  request.set_request_id(RequestIdOf(action));
  request.set_owner(program.user());
  v1::Node node;
  const grpc::Status status = program.client().ResumeNode(request, &node);
  if (!status.ok()) return program.Fail(status);
  TellNode(program, node);
  return kCliOk;
}

}  // namespace

void AddNodeResume(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand(
      "resume", "Take all cordons and drains of nodes away, whoever has set them");
  AddNodeAction(*verb, program, *action);
  verb->callback([action, &program] {
    program.action = [action, &program] {
      return ForEachNode(program, *action, [&](const std::string& name) {
        return ResumeNode(program, *action, name);
      });
    };
  });
}

}  // namespace paceline
