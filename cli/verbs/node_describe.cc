// paceline node describe NODE
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/rpc/node_watch.h"
#include "cli/verbs/live_view.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "cli/view/node_page.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct NodeDescribeFlags {
  std::string node;
  bool watch = false;
};

// The page in place, until Ctrl-C. OK when the node is gone.
grpc::Status WatchPage(Program& program, v1::Node node) {
  LiveView view(program, [&] { return NodePage(node, absl::Now(), program.style()); });
  ChangeWatch<v1::NodeEvent> watch;
  watch.after_revision = node.revision();
  watch.each = [&, name = node.name()](const v1::NodeEvent& event) {
    if (event.node().name() != name) return true;
    if (event.type() == v1::DELETED) return false;
    view.Update([&] { node = event.node(); });
    return true;
  };
  watch.on_outage = [&](const grpc::Status&) { view.Say(program.OutageText()); };
  return WatchNodes(program.client(), watch);
}

int DescribeNode(Program& program, const NodeDescribeFlags& flags) {
  v1::GetNodeRequest request;
  request.set_name(flags.node);
  v1::Node node;
  grpc::Status status = program.client().GetNode(request, &node);
  if (!status.ok()) return program.Fail(status);
  if (flags.watch && !WatchesInPlace(program)) {
    return TellNodeChanges(program,
                           [&](const v1::Node& other) { return other.name() == node.name(); });
  }
  if (flags.watch) {
    status = WatchPage(program, node);
    return status.ok() ? kCliOk : program.Fail(status);
  }
  if (program.json()) {
    program.PrintJson(node);
  } else {
    program.out() << NodePage(node, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeDescribeFlags>();
  CLI::App* verb = parent.add_subcommand("describe", "Show everything about a node");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  AddWatchFlag(*verb, &flags->watch);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return DescribeNode(program, *flags); };
  });
}

}  // namespace paceline
