// paceline node cordon NODE...
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/verbs/node_action.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct NodeCordonFlags {
  NodeAction action;
  double for_s = 0;
};

int CordonNode(Program& program, const NodeCordonFlags& flags, const std::string& name) {
  v1::CordonNodeRequest request;
  request.set_name(name);
  request.set_request_id(RequestIdOf(flags.action));
  request.set_owner(program.user());
  request.set_reason(flags.action.reason);
  if (flags.for_s > 0) {
    const absl::Time until = absl::Now() + absl::Seconds(flags.for_s);
    request.mutable_until()->set_seconds(absl::ToUnixSeconds(until));
  }
  v1::Node node;
  const grpc::Status status = program.client().CordonNode(request, &node);
  if (!status.ok()) return program.Fail(status);
  TellNode(program, node);
  return kCliOk;
}

}  // namespace

void AddNodeCordon(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeCordonFlags>();
  CLI::App* verb =
      parent.add_subcommand("cordon", "Place no new ranks on nodes; those that are there stay");
  AddNodeAction(*verb, program, flags->action);
  AddReason(*verb, flags->action.reason);
  verb->add_option("--for", flags->for_s, "It ends by itself after so many seconds. Default: never")
      ->check(Number(1, 1e8));
  verb->callback([flags, &program] {
    program.action = [flags, &program] {
      return ForEachNode(program, flags->action, [&](const std::string& name) {
        return CordonNode(program, *flags, name);
      });
    };
  });
}

}  // namespace paceline
