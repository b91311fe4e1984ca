// paceline node drain|replace NODE...
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/drain_watch.h"
#include "cli/verbs/node_action.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

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

const std::map<std::string, v1::DrainMode>& Modes() {
  static const auto* modes = new std::map<std::string, v1::DrainMode>{
      {"swap", v1::DRAIN_SWAP},
      {"checkpoint", v1::DRAIN_CHECKPOINT},
      {"finish", v1::DRAIN_FINISH},
      {"now", v1::DRAIN_NOW},
  };
  return *modes;
}

int DrainNode(Program& program, const NodeDrainFlags& flags, const std::string& name) {
  v1::DrainNodeRequest request;
  request.set_name(name);
  request.set_request_id(RequestIdOf(flags.action));
  request.set_owner(program.user());
  request.set_reason(flags.action.reason);
  request.set_mode(Modes().at(flags.mode));
  request.set_deadline_s(flags.no_deadline ? -1 : flags.deadline_s);
  request.set_dry_run(flags.dry_run);
  request.set_replace(flags.replace);
  v1::DrainNodeResponse response;
  const grpc::Status status = program.client().DrainNode(request, &response);
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

void AddVerb(CLI::App& parent, Program& program, bool replace, const std::string& name,
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
                       ->check(Number(1, 1e8))
                       ->capture_default_str();
  verb->add_flag("--no-deadline", flags->no_deadline, "Take as long as it takes")
      ->excludes(deadline);
  verb->add_flag("--dry-run", flags->dry_run, "Only tell what would happen to which job");
  verb->add_flag("--detach", flags->detach, "Do not wait until the nodes are empty");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return DrainNodes(program, *flags); };
  });
}

}  // namespace

void AddNodeDrain(CLI::App& parent, Program& program) {
  AddVerb(parent, program, false, "drain", "Empty nodes, and place nothing there any more");
}

void AddNodeReplace(CLI::App& parent, Program& program) {
  AddVerb(parent, program, true, "replace",
          "Empty nodes while their jobs train on; only if there is a place for every rank");
}

}  // namespace paceline
