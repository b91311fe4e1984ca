#include "cli/verbs/drain_watch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/rpc/node_watch.h"
#include "cli/text/neutral.h"
#include "cli/view/node_page.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

bool HasDrain(const v1::Node& node) {
  return std::any_of(node.holds().begin(), node.holds().end(), [](const v1::Hold& hold) {
    return hold.drain() != v1::DRAIN_MODE_UNSPECIFIED;
  });
}

}  // namespace

int AwaitDrained(Program& program, std::set<std::string> nodes) {
  std::map<std::string, std::string> shown;
  int exit = kCliOk;
  ChangeWatch<v1::NodeEvent> watch;
  watch.each = [&](const v1::NodeEvent& event) {
    const v1::Node& node = event.node();
    const auto awaited = nodes.find(node.name());
    if (awaited == nodes.end()) return true;
    const std::string line = DrainLine(node, program.style());
    if (std::exchange(shown[node.name()], line) != line) {
      if (program.json()) {
        program.PrintJsonLine(event);
      } else {
        program.out() << line << std::endl;
      }
    }
    const bool drained = node.state() == v1::NODE_DRAINED;
    if (!drained && node.state() != v1::NODE_LOST && HasDrain(node)) return true;
    if (!drained) exit = kCliFailed;
    nodes.erase(awaited);
    return !nodes.empty();
  };
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  const grpc::Status status = WatchNodes(program.client(), watch);
  if (status.ok()) return exit;
  const int failure = program.Fail(status);
  program.Note(
      absl::StrCat("the drain goes on; paceline node watch shows it, paceline node resume ",
                   absl::StrJoin(nodes, " "), " ends it"));
  return failure;
}

}  // namespace paceline
