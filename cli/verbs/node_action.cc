#include "cli/verbs/node_action.h"

#include "absl/strings/str_cat.h"
#include "cli/text/host_list.h"
#include "cli/view/node_page.h"
#include "common/uuid.h"

namespace paceline {

void AddNodeAction(CLI::App& verb, Program& program, NodeAction& action) {
  verb.add_option("NODE", action.nodes, "Names of nodes; n[01-16] stands for sixteen")->required();
  AddOwner(verb, program);
  verb.add_option("--request-id", action.request_id,
                  "Name of this request, such as a UUID, for one node. Default: a new one");
}

void AddReason(CLI::App& verb, std::string& reason) {
  verb.add_option("--reason", reason, "Why, in one line; shown with the node")->required();
}

void AddOwner(CLI::App& verb, Program& program) {
  verb.add_option("--owner", program.flags.owner,
                  "In whose name. Default: the name in your certificate, else $USER, else that of "
                  "your token");
}

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

std::string RequestIdOf(const NodeAction& action) {
  return action.request_id.empty() ? NewUuid() : action.request_id;
}

void TellNode(Program& program, const v1::Node& node) {
  if (program.json()) {
    program.PrintJsonLine(node);
  } else {
    program.out() << NodeLine(node, program.style()) << std::endl;
  }
}

}  // namespace paceline
