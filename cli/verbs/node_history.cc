// paceline node history NODE
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

int ShowHistory(Program& program, const std::string& name) {
  v1::NodeHistoryRequest request;
  request.set_name(name);
  v1::NodeHistory history;
  const grpc::Status status = program.client().NodeHistory(request, &history);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(history);
  } else {
    program.out() << HistoryTable(history, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeHistory(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("history", "Show what was done with a node, and by whom");
  verb->add_option("NODE", *name, "Name of the node")->required();
  verb->callback([name, &program] {
    program.action = [name, &program] { return ShowHistory(program, *name); };
  });
}

}  // namespace paceline
