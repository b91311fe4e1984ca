// paceline node check NODE
#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/rpc/node_watch.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"
#include "common/uuid.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct NodeCheckFlags {
  std::string node;
  std::string request_id;
  double for_s = 300;
};

// Waits for a result that is newer than `before`.
grpc::Status AwaitResult(Program& program, const NodeCheckFlags& flags, int64_t before,
                         v1::Node* node) {
  ChangeWatch<v1::NodeEvent> watch;
  watch.deadline = absl::Now() + absl::Seconds(flags.for_s);
  watch.each = [&](const v1::NodeEvent& event) {
    if (event.node().name() != flags.node || event.node().check().id() <= before) return true;
    *node = event.node();
    return false;
  };
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  return WatchNodes(program.client(), watch);
}

int CheckNode(Program& program, const NodeCheckFlags& flags) {
  v1::CheckNodeRequest request;
  request.set_name(flags.node);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  v1::Node node;
  grpc::Status status = program.client().CheckNode(request, &node);
  if (status.ok()) status = AwaitResult(program, flags, node.check().id(), &node);
  if (!status.ok()) return program.Fail(status);
  const v1::NodeCheckResult& result = node.check();
  if (program.json()) {
    program.PrintJson(result);
  } else {
    program.out() << CheckTable(result, program.style()) << std::flush;
  }
  const bool bad =
      std::any_of(result.measurements().begin(), result.measurements().end(),
                  [](const v1::NodeMeasurement& measurement) { return measurement.bad(); });
  return bad || !result.error().empty() ? kCliFailed : kCliOk;
}

}  // namespace

void AddNodeCheck(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeCheckFlags>();
  CLI::App* verb = parent.add_subcommand(
      "check", "Measure a node, and compare with its earlier checks and its peers");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  verb->add_option("--for", flags->for_s, "Wait at most so many seconds")
      ->check(Number(1, 86400))
      ->capture_default_str();
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return CheckNode(program, *flags); };
  });
}

}  // namespace paceline
