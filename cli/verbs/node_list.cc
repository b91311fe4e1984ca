// paceline node list
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "cli/rpc/node_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/live_view.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "cli/view/node_page.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct NodeListFlags {
  std::vector<std::string> states;
  bool watch = false;
};

constexpr char kStatePrefix[] = "NODE_";

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::NodeState_MIN + 1; i <= v1::NodeState_MAX; ++i) {
    names.push_back(absl::AsciiStrToLower(absl::StripPrefix(v1::NodeState_Name(i), kStatePrefix)));
  }
  return names;
}

bool IsWanted(const v1::Node& node, const NodeListFlags& flags) {
  if (flags.states.empty()) return true;
  return std::any_of(flags.states.begin(), flags.states.end(), [&](const std::string& name) {
    return v1::NodeState_Name(node.state()) ==
           absl::StrCat(kStatePrefix, absl::AsciiStrToUpper(name));
  });
}

v1::ListNodesResponse Wanted(const v1::ListNodesResponse& nodes, const NodeListFlags& flags) {
  v1::ListNodesResponse wanted;
  wanted.set_revision(nodes.revision());
  for (const v1::Node& node : nodes.nodes()) {
    if (IsWanted(node, flags)) *wanted.add_nodes() = node;
  }
  return wanted;
}

// All pages, with the revision of the first one: what changed while the others came is told by a
// watch from there.
grpc::Status FetchNodes(Program& program, v1::ListNodesResponse* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().ListNodes(request, &page);
    if (!status.ok()) return status;
    nodes->mutable_nodes()->MergeFrom(page.nodes());
    if (request.page_token().empty()) nodes->set_revision(page.revision());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// By name. A node that was listed later than it was so stays as it is.
void PutInto(v1::ListNodesResponse* nodes, const v1::NodeEvent& event) {
  auto& list = *nodes->mutable_nodes();
  const auto at = std::lower_bound(
      list.begin(), list.end(), event.node().name(),
      [](const v1::Node& node, const std::string& name) { return node.name() < name; });
  const bool known = at != list.end() && at->name() == event.node().name();
  if (known && event.type() == v1::DELETED) {
    list.erase(at);
  } else if (known && event.node().revision() < at->revision()) {
    return;
  } else if (known) {
    *at = event.node();
  } else if (event.type() != v1::DELETED) {
    const auto place = at - list.begin();
    *list.Add() = event.node();
    std::rotate(list.begin() + place, list.end() - 1, list.end());
  }
}

// The table in place, until Ctrl-C.
grpc::Status WatchTable(Program& program, const NodeListFlags& flags) {
  v1::ListNodesResponse nodes;
  const grpc::Status status = FetchNodes(program, &nodes);
  if (!status.ok()) return status;
  LiveView view(program,
                [&] { return NodeTable(Wanted(nodes, flags), absl::Now(), program.style()); });
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

int ListNodes(Program& program, const NodeListFlags& flags) {
  if (flags.watch && WatchesInPlace(program)) return program.Fail(WatchTable(program, flags));
  if (flags.watch) {
    return TellNodeChanges(program, [&](const v1::Node& node) { return IsWanted(node, flags); });
  }
  v1::ListNodesResponse all;
  const grpc::Status status = FetchNodes(program, &all);
  if (!status.ok()) return program.Fail(status);
  const v1::ListNodesResponse nodes = Wanted(all, flags);
  if (program.json()) {
    program.PrintJson(nodes);
  } else if (program.names()) {
    for (const v1::Node& node : nodes.nodes()) program.out() << NeutralLine(node.name()) << "\n";
  } else if (nodes.nodes().empty()) {
    program.Note(flags.states.empty() ? "no nodes yet; a worker daemon registers its node by itself"
                                      : "no node in such a state");
  } else {
    program.out() << NodeTable(nodes, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddNodeList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List nodes by name");
  verb->add_option("--state", flags->states, "Only nodes in one of these states")
      ->delimiter(',')
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case));
  AddWatchFlag(*verb, &flags->watch);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ListNodes(program, *flags); };
  });
}

}  // namespace paceline
