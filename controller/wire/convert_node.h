// Converts messages about nodes to and from core's types; see convert.h.
#ifndef CONTROLLER_WIRE_CONVERT_NODE_H_
#define CONTROLLER_WIRE_CONVERT_NODE_H_

#include <optional>

#include "controller/core/cluster/cluster.h"
#include "proto/node.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Core to wire:
v1::NodeState ToProto(NodeState state);
v1::Hold ToProto(const Hold& hold);
v1::NodeHistoryEvent ToProto(const NodeLifeEvent& event);
v1::NodeCheckRequest ToProto(const CheckOrder& check);
v1::NodeCheckResult ToProto(const CheckResult& result);
v1::DrainEffect ToProto(const DrainEffect& effect);
v1::AutomationStatus ToProto(const Automation& automation);
// Includes what `cluster` has placed on the node. The revision is left unset.
v1::Node ToProto(const Node& node, const Cluster& cluster);

// Wire to core: an unknown mode becomes a swap, an unknown state UNREACHABLE.
DrainMode FromProto(v1::DrainMode mode);
Hold FromProto(const v1::Hold& hold);
NodeLifeEvent FromProto(const v1::NodeHistoryEvent& event);
CheckResult FromProto(const v1::NodeCheckResult& result);
Automation FromProto(const v1::AutomationStatus& automation);
NodeFacts FromProto(const v1::Hello& hello);
// Result in a report; nothing: there is none.
std::optional<CheckResult> CheckOf(const v1::NodeReport& report);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_NODE_H_
