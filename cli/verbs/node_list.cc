// paceline node list
#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/rpc/node_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/live_view.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "cli/view/node_page.h"

namespace paceline {
namespace {

grpc::Status FetchNodes(Program& program, v1::ListNodesResponse* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().ListNodes(request, &page);
    if (!status.ok()) return status;
    nodes->mutable_nodes()->MergeFrom(page.nodes());
    nodes->set_revision(page.revision());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// By name.
void PutInto(v1::ListNodesResponse* nodes, const v1::NodeEvent& event) {
  auto& list = *nodes->mutable_nodes();
  const auto at = std::lower_bound(
      list.begin(), list.end(), event.node().name(),
      [](const v1::Node& node, const std::string& name) { return node.name() < name; });
  const bool known = at != list.end() && at->name() == event.node().name();
  if (known && event.type() == v1::DELETED) {
    list.erase(at);
  } else if (known) {
    *at = event.node();
  } else if (event.type() != v1::DELETED) {
    const auto place = at - list.begin();
    *list.Add() = event.node();
    std::rotate(list.begin() + place, list.end() - 1, list.end());
  }
}

// The table in place, until Ctrl-C.
grpc::Status WatchTable(Program& program) {
  v1::ListNodesResponse nodes;
  const grpc::Status status = FetchNodes(program, &nodes);
  if (!status.ok()) return status;
  LiveView view(program, [&] { return NodeTable(nodes, absl::Now(), program.style()); });
  ChangeWatch<v1::NodeEvent> watch;
  watch.after_revision = nodes.revision();
  watch.each = [&](const v1::NodeEvent& event) {
    view.Update([&] { PutInto(&nodes, event); });
    return true;
  };
  watch.on_outage = [&](const grpc::Status&) { view.Say(program.OutageText()); };
  watch.on_gap = [&] {
    v1::ListNodesResponse again;
    if (!FetchNodes(program, &again).ok()) return;
    view.Update([&] { nodes = again; });
  };
  return WatchNodes(program.client(), watch);
}

int ListNodes(Program& program, bool watch) {
  if (watch && !WatchesInPlace(program)) return TellNodeChanges(program, {});
  if (watch) return program.Fail(WatchTable(program));
  v1::ListNodesResponse nodes;
  const grpc::Status status = FetchNodes(program, &nodes);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(nodes);
  } else if (program.names()) {
    for (const v1::Node& node : nodes.nodes()) program.out() << NeutralLine(node.name()) << "\n";
  } else if (nodes.nodes().empty()) {
    program.Note("no nodes yet; a worker daemon registers its node by itself");
  } else {
    program.out() << NodeTable(nodes, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeList(CLI::App& parent, Program& program) {
  const auto watch = std::make_shared<bool>(false);
  CLI::App* verb = parent.add_subcommand("list", "List nodes by name");
  AddWatchFlag(*verb, watch.get());
  verb->callback([watch, &program] {
    program.action = [watch, &program] { return ListNodes(program, *watch); };
  });
}

}  // namespace paceline
