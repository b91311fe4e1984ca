// What the controller may do to nodes by itself, and the brake on it.
//
// The automation drains a node only while it is not paused, and only if no more than a set share of
// all nodes would then be out: drained by it, unreachable or lost. A drain that would exceed the
// share makes it pause itself, as owner "brake", until a person resumes it: when many nodes look
// ill at once, the cause is rarely the nodes. It empties only one node of a job at a time.
#ifndef CONTROLLER_CORE_NODE_AUTOMATION_H_
#define CONTROLLER_CORE_NODE_AUTOMATION_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/node/node.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

inline constexpr char kBrakeOwner[] = "brake";

struct Automation {
  bool paused = false;
  // While it is paused: by whom, why, since when (wall).
  std::string owner;
  std::string reason;
  absl::Time since;
};

// Names of the nodes that are out, or would be if `also` were drained.
std::vector<NodeName> NodesOut(const std::map<NodeName, Node>& nodes, const NodeName& also);

// The nodes that the automation is emptying.
std::vector<NodeName> DrainedByAutomation(const std::map<NodeName, Node>& nodes);

// Why the automation must not drain the node: NODE_NOT_FOUND, AUTOMATION_PAUSED, HELD_BY_PERSON,
// BRAKE. Nothing is said against its own drain that is under way.
std::optional<Refusal> RefuseAutomaticDrain(const Automation& automation,
                                            const std::map<NodeName, Node>& nodes,
                                            const NodeName& node, double max_share);

// Whether this refusal of an automatic drain means that the brake must be pulled.
inline bool PullsBrake(const Refusal& refusal) { return std::string(refusal.reason) == "BRAKE"; }

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_AUTOMATION_H_
