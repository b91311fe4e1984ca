// paceline node list, describe, history, check and watch: what is known of nodes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/watch.h"
#include "cli/text/host_list.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/live_view.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node/node_page.h"
#include "common/job_spec/enum_name.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

// Prints a line (JSON: event) for each node that is `wanted`, and then for each of its changes.
// Returns the exit code.
int TellNodeChanges(Program& program, const std::function<bool(const v1::Node&)>& wanted) {
  std::map<std::string, std::string> shown;
  ChangeWatch<v1::NodeEvent> watch;
  watch.each = [&](const v1::NodeEvent& event) {
    const std::string& name = event.node().name();
    const bool gone = event.type() == v1::DELETED || !wanted(event.node());
    // A node that was shown is shown once more when it is no longer wanted.
    if (gone && shown.count(name) == 0) return true;
    const std::string line = DrainLine(event.node(), program.style());
    const bool same = std::exchange(shown[name], line) == line;
    if (gone) shown.erase(name);
    if (program.json()) {
      program.PrintJsonLine(event);
      return true;
    }
    if (same) return true;
    program.out() << (program.names() ? SanitizeLine(name) : line) << std::endl;
    return true;
  };
  watch.on_outage = OutageNote(program);
  return program.Fail(WatchNodes(program.client(), watch));
}

struct NodeListFlags {
  std::vector<std::string> states;
  bool watch = false;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::NodeState_MIN + 1; i <= v1::NodeState_MAX; ++i) {
    names.push_back(EnumName(*v1::NodeState_descriptor(), i));
  }
  return names;
}

bool IsWanted(const v1::Node& node, const NodeListFlags& flags) {
  if (flags.states.empty()) return true;
  return std::any_of(flags.states.begin(), flags.states.end(), [&](const std::string& name) {
    return EnumName(*v1::NodeState_descriptor(), node.state()) == absl::AsciiStrToLower(name);
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

// Fetches all pages. Keeps the revision of the first page, so that a watch from there shows what
// changed while the others were fetched.
grpc::Status FetchNodes(Program& program, v1::ListNodesResponse* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().Call(methods::kNodeList, request, &page);
    if (!status.ok()) return status;
    nodes->mutable_nodes()->MergeFrom(page.nodes());
    if (request.page_token().empty()) nodes->set_revision(page.revision());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// Inserts the node of an event, by name, unless the list has a later state of it.
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

// Updates the table in place until Ctrl-C.
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
    for (const v1::Node& node : nodes.nodes()) program.out() << SanitizeLine(node.name()) << "\n";
  } else if (nodes.nodes().empty()) {
    program.Note(flags.states.empty() ? "no nodes yet; a worker daemon registers its node by itself"
                                      : "no node in such a state");
  } else {
    program.out() << NodeTable(nodes, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

void AddNodeList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List nodes by name");
  verb->add_option("--state", flags->states, "Only nodes in one of these states")
      ->delimiter(',')
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case));
  AddWatchFlag(*verb, &flags->watch);
  RunWith(*verb, program, flags, ListNodes);
}

struct NodeDescribeFlags {
  std::string node;
  bool watch = false;
};

// Updates the page in place until Ctrl-C. OK if the node is gone.
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
  grpc::Status status = program.client().Call(methods::kNodeGet, request, &node);
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

void AddNodeDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeDescribeFlags>();
  CLI::App* verb = parent.add_subcommand("describe", "Show everything about a node");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  AddWatchFlag(*verb, &flags->watch);
  RunWith(*verb, program, flags, DescribeNode);
}

int ShowHistory(Program& program, const std::string& name) {
  v1::NodeHistoryRequest request;
  request.set_name(name);
  v1::NodeHistory history;
  const grpc::Status status = program.client().Call(methods::kNodeHistory, request, &history);
  return TellAnswer(program, status, history, [&](std::ostream& out) {
    out << HistoryTable(history, absl::Now(), program.style());
  });
}

void AddNodeLog(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("history", "Show what was done with a node, and by whom");
  verb->add_option("NODE", *name, "Name of the node")->required();
  RunWith(*verb, program, name, ShowHistory);
}

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
  watch.on_outage = OutageNote(program);
  return WatchNodes(program.client(), watch);
}

int CheckNode(Program& program, const NodeCheckFlags& flags) {
  v1::CheckNodeRequest request;
  request.set_name(flags.node);
  request.set_request_id(RequestId(flags.request_id));
  v1::Node node;
  grpc::Status status = program.client().Call(methods::kNodeCheck, request, &node);
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

void AddNodeCheck(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeCheckFlags>();
  CLI::App* verb = parent.add_subcommand(
      "check", "Measure a node, and compare with its earlier checks and its peers");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  verb->add_option("--for", flags->for_s, "Wait at most so many seconds")
      ->transform(Seconds(1, 86400))
      ->capture_default_str();
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, CheckNode);
}

int WatchNamed(Program& program, const std::vector<std::string>& words) {
  const auto names = ExpandHosts(words);
  if (!names.ok()) return program.Fail(names.status());
  return TellNodeChanges(program, [&](const v1::Node& node) {
    return names->empty() || std::count(names->begin(), names->end(), node.name()) > 0;
  });
}

void AddNodeWatch(CLI::App& parent, Program& program) {
  const auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = parent.add_subcommand("watch", "Show the changes of nodes");
  verb->add_option("NODE", *names, "Names of nodes; none: all");
  RunWith(*verb, program, names, WatchNamed);
}

}  // namespace

void AddNodeViews(CLI::App& parent, Program& program) {
  AddNodeList(parent, program);
  AddNodeDescribe(parent, program);
}

void AddNodeHistory(CLI::App& parent, Program& program) {
  AddNodeLog(parent, program);
  AddNodeCheck(parent, program);
  AddNodeWatch(parent, program);
}

}  // namespace paceline
