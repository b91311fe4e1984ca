#include "controller/core/node/automation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

bool HasAutomaticDrain(const Node& node) {
  return std::any_of(node.holds.begin(), node.holds.end(), [](const Hold& hold) {
    return hold.drain.has_value() && hold.owner == kAutomationOwner;
  });
}

}  // namespace

std::vector<NodeName> NodesOut(const std::map<NodeName, Node>& nodes, const NodeName& also) {
  std::vector<NodeName> out;
  for (const auto& [name, node] : nodes) {
    if (name == also || node.contact != Contact::kReachable || HasAutomaticDrain(node)) {
      out.push_back(name);
    }
  }
  return out;
}

std::vector<NodeName> DrainedByAutomation(const std::map<NodeName, Node>& nodes) {
  std::vector<NodeName> drained;
  for (const auto& [name, node] : nodes) {
    if (HasAutomaticDrain(node)) drained.push_back(name);
  }
  return drained;
}

std::optional<Refusal> RefuseAutomaticDrain(const Automation& automation,
                                            const std::map<NodeName, Node>& nodes,
                                            const NodeName& node, double max_share) {
  const auto found = nodes.find(node);
  if (found == nodes.end()) {
    return Refusal{Refusal::Kind::kState, "NODE_NOT_FOUND",
                   absl::StrCat("no node is named \"", node.value(), "\"")};
  }
  if (automation.paused) {
    return Refusal{Refusal::Kind::kState, "AUTOMATION_PAUSED",
                   absl::StrCat("the automation was paused by ", automation.owner, ": ",
                                automation.reason, "; paceline automation resume lets it go on")};
  }
  if (auto held = RefuseAutomaticHold(found->second.holds); held.has_value()) return held;
  if (HasAutomaticDrain(found->second)) return std::nullopt;
  const size_t out = NodesOut(nodes, node).size();
  const double share = static_cast<double>(out) / static_cast<double>(nodes.size());
  if (share <= max_share) return std::nullopt;
  return Refusal{
      Refusal::Kind::kState, "BRAKE",
      absl::StrFormat("with %s %d of %d nodes would be drained by the automation, unreachable or "
                      "lost, and %.0f %% is the most that it may come to",
                      node.value(), out, nodes.size(), 100 * max_share)};
}

}  // namespace paceline
