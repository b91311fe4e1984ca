// paceline node cordon, uncordon, drain, replace, resume and lost: changes of nodes.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/rpc/watch.h"
#include "cli/text/host_list.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node/node_page.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

// Common parts of the verbs: names of several nodes, who asks and why, and one answer per node.
struct NodeAction {
  std::vector<std::string> nodes;  // As on the command line.
  std::string reason;
  std::string request_id;
};

// Adds NODE..., --owner, --request-id.
void AddNodeAction(CLI::App& verb, Program& program, NodeAction& action) {
  verb.add_option("NODE", action.nodes, "Names of nodes; n[01-16] stands for sixteen")->required();
  AddOwner(verb, program);
  verb.add_option("--request-id", action.request_id,
                  "Name of this request, such as a UUID, for one node. Default: a new one");
}

// Runs `act` for each name. Does nothing if a name or the owner is invalid. If one fails, the
// others are still done; returns the first exit code that is not 0.
int ForEachNode(Program& program, const NodeAction& action,
                const std::function<int(const std::string& name)>& act) {
  const auto names = ExpandHosts(action.nodes);
  if (!names.ok()) return program.Fail(names.status());
  if (names->size() > 1 && !action.request_id.empty()) {
    return program.Fail(kCliUsage, "--request-id stands for one request: name one node");
  }
  if (program.user().empty()) return program.FailWithoutUser();
  int first_failure = kCliOk;
  for (const std::string& name : *names) {
    const int exit = act(name);
    if (first_failure == kCliOk) first_failure = exit;
    if (program.interrupt().raised()) break;
  }
  return first_failure;
}

template <typename Request>
Request RequestFor(Program& program, const NodeAction& action, const std::string& name) {
  Request request;
  request.set_name(name);
  request.set_request_id(RequestId(action.request_id));
  request.set_owner(program.user());
  return request;
}

// Prints the error, or the node, as a line "a is CORDONED: cordoned by ann: ..." or as JSON.
int TellNode(Program& program, const grpc::Status& status, const v1::Node& node) {
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJsonLine(node);
  } else {
    program.out() << NodeLine(node, program.style()) << std::endl;
  }
  return kCliOk;
}

using ChangeNode = int (*)(Program&, const NodeAction&, const std::string& name);

// Makes the verb do this to each node.
void ChangeEach(CLI::App& verb, Program& program, const std::shared_ptr<NodeAction>& action,
                ChangeNode change) {
  verb.callback([&program, action, change] {
    program.action = [&program, action, change] {
      return ForEachNode(program, *action,
                         [&](const std::string& name) { return change(program, *action, name); });
    };
  });
}

bool HasDrain(const v1::Node& node) {
  return std::any_of(node.holds().begin(), node.holds().end(), [](const v1::Hold& hold) {
    return hold.drain() != v1::DRAIN_MODE_UNSPECIFIED;
  });
}

// Prints a line for each change. The drain does not depend on being watched. Returns the exit code:
// 0 if all are DRAINED; 1 if somebody removed the drain of one, or one is LOST.
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
  watch.on_outage = OutageNote(program);
  const grpc::Status status = WatchNodes(program.client(), watch);
  if (status.ok()) return exit;
  const int failure = program.Fail(status);
  program.Note(
      absl::StrCat("the drain goes on; paceline node watch shows it, paceline node resume ",
                   absl::StrJoin(nodes, " "), " ends it"));
  return failure;
}

struct NodeCordonFlags {
  NodeAction action;
  double for_s = 0;
};

int CordonNode(Program& program, const NodeCordonFlags& flags, const std::string& name) {
  auto request = RequestFor<v1::CordonNodeRequest>(program, flags.action, name);
  request.set_reason(flags.action.reason);
  if (flags.for_s > 0) {
    const absl::Time until = absl::Now() + absl::Seconds(flags.for_s);
    request.mutable_until()->set_seconds(absl::ToUnixSeconds(until));
  }
  v1::Node node;
  const grpc::Status status = program.client().Call(methods::kNodeCordon, request, &node);
  return TellNode(program, status, node);
}

int CordonNodes(Program& program, const NodeCordonFlags& flags) {
  return ForEachNode(program, flags.action,
                     [&](const std::string& name) { return CordonNode(program, flags, name); });
}

void AddNodeCordon(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<NodeCordonFlags>();
  CLI::App* verb =
      parent.add_subcommand("cordon", "Place no new ranks on nodes; those that are there stay");
  AddNodeAction(*verb, program, flags->action);
  AddReason(*verb, flags->action.reason);
  verb->add_option("--for", flags->for_s, "It ends by itself after so many seconds. Default: never")
      ->transform(Seconds(1, 1e8));
  RunWith(*verb, program, flags, CordonNodes);
}

int UncordonNode(Program& program, const NodeAction& action, const std::string& name) {
  auto request = RequestFor<v1::UncordonNodeRequest>(program, action, name);
  v1::Node node;
  const grpc::Status status = program.client().Call(methods::kNodeUncordon, request, &node);
  return TellNode(program, status, node);
}

void AddNodeUncordon(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand("uncordon", "Take your own cordon of nodes away");
  AddNodeAction(*verb, program, *action);
  ChangeEach(*verb, program, action, UncordonNode);
}

constexpr double kDefaultDeadline = 3600;

struct NodeDrainFlags {
  NodeAction action;
  std::string mode = "swap";
  double deadline_s = kDefaultDeadline;
  bool no_deadline = false;
  bool dry_run = false;
  bool detach = false;
  bool replace = false;
};

const std::map<std::string, v1::DrainMode>& DrainModes() {
  static const auto* modes = new std::map<std::string, v1::DrainMode>{
      {"swap", v1::DRAIN_SWAP},
      {"checkpoint", v1::DRAIN_CHECKPOINT},
      {"finish", v1::DRAIN_FINISH},
      {"now", v1::DRAIN_NOW},
  };
  return *modes;
}

int DrainNode(Program& program, const NodeDrainFlags& flags, const std::string& name) {
  auto request = RequestFor<v1::DrainNodeRequest>(program, flags.action, name);
  request.set_reason(flags.action.reason);
  request.set_mode(DrainModes().at(flags.mode));
  request.set_deadline_s(flags.no_deadline ? -1 : flags.deadline_s);
  request.set_dry_run(flags.dry_run);
  request.set_replace(flags.replace);
  v1::DrainNodeResponse response;
  const grpc::Status status = program.client().Call(methods::kNodeDrain, request, &response);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJsonLine(response);
  } else {
    program.out() << DrainText(response, flags.dry_run, program.style()) << std::flush;
  }
  return kCliOk;
}

int DrainNodes(Program& program, const NodeDrainFlags& flags) {
  std::set<std::string> draining;
  const int exit = ForEachNode(program, flags.action, [&](const std::string& name) {
    const int drained = DrainNode(program, flags, name);
    if (drained == kCliOk) draining.insert(name);
    return drained;
  });
  if (flags.dry_run) {
    if (exit == kCliOk) program.Note("nothing was done");
    return exit;
  }
  if (flags.detach || draining.empty() || program.interrupt().raised()) return exit;
  const int awaited = AwaitDrained(program, draining);
  return exit == kCliOk ? awaited : exit;
}

void AddDrainVerb(CLI::App& parent, Program& program, bool replace, const std::string& name,
                  const std::string& what) {
  const auto flags = std::make_shared<NodeDrainFlags>();
  flags->replace = replace;
  CLI::App* verb = parent.add_subcommand(name, what);
  AddNodeAction(*verb, program, flags->action);
  AddReason(*verb, flags->action.reason);
  if (!replace) {
    verb->add_option("--mode", flags->mode,
                     "What becomes of the ranks there: swap (others take them over while the job "
                     "trains), checkpoint (save, stop, start elsewhere), finish (train to the "
                     "end), now")
        ->check(CLI::IsMember({"swap", "checkpoint", "finish", "now"}))
        ->capture_default_str();
  }
  auto* deadline = verb->add_option("--deadline", flags->deadline_s,
                                    "Seconds after which what is left there is ended")
                       ->transform(Seconds(1, 1e8))
                       ->capture_default_str();
  verb->add_flag("--no-deadline", flags->no_deadline, "Take as long as it takes")
      ->excludes(deadline);
  verb->add_flag("--dry-run", flags->dry_run, "Only tell what would happen to which job");
  verb->add_flag("--detach", flags->detach, "Do not wait until the nodes are empty");
  RunWith(*verb, program, flags, DrainNodes);
}

void AddNodeDrain(CLI::App& parent, Program& program) {
  AddDrainVerb(parent, program, false, "drain", "Empty nodes, and place nothing there any more");
}

void AddNodeReplace(CLI::App& parent, Program& program) {
  AddDrainVerb(parent, program, true, "replace",
               "Empty nodes while their jobs train on; only if there is a slot for every rank");
}

int ResumeNode(Program& program, const NodeAction& action, const std::string& name) {
  auto request = RequestFor<v1::ResumeNodeRequest>(program, action, name);
  v1::Node node;
  const grpc::Status status = program.client().Call(methods::kNodeResume, request, &node);
  return TellNode(program, status, node);
}

void AddNodeResume(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand(
      "resume", "Take all cordons and drains of nodes away, whoever has set them");
  AddNodeAction(*verb, program, *action);
  ChangeEach(*verb, program, action, ResumeNode);
}

int DeclareLost(Program& program, const NodeAction& action, const std::string& name) {
  auto request = RequestFor<v1::DeclareNodeLostRequest>(program, action, name);
  request.set_reason(action.reason);
  v1::Node node;
  const grpc::Status status = program.client().Call(methods::kNodeDeclareLost, request, &node);
  return TellNode(program, status, node);
}

void AddNodeLost(CLI::App& parent, Program& program) {
  const auto action = std::make_shared<NodeAction>();
  CLI::App* verb = parent.add_subcommand(
      "lost",
      "Declare that nodes that do not answer run nothing any more: their ranks are replaced");
  AddNodeAction(*verb, program, *action);
  AddReason(*verb, action->reason);
  ChangeEach(*verb, program, action, DeclareLost);
}

}  // namespace

void AddNodeChanges(CLI::App& parent, Program& program) {
  AddNodeCordon(parent, program);
  AddNodeUncordon(parent, program);
  AddNodeDrain(parent, program);
  AddNodeReplace(parent, program);
  AddNodeResume(parent, program);
  AddNodeLost(parent, program);
}

}  // namespace paceline
