// paceline node describe NODE
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"

namespace paceline {
namespace {

int DescribeNode(Program& program, const std::string& name) {
  v1::GetNodeRequest request;
  request.set_name(name);
  v1::Node node;
  const grpc::Status status = program.client().GetNode(request, &node);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(node);
  } else {
    program.out() << NodePage(node, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeDescribe(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("describe", "Show everything about a node");
  verb->add_option("NODE", *name, "Name of the node")->required();
  verb->callback([name, &program] {
    program.action = [name, &program] { return DescribeNode(program, *name); };
  });
}

}  // namespace paceline
