// Events of the cluster that concern nodes (cluster.h).
#ifndef CONTROLLER_CORE_NODE_NODE_EVENTS_H_
#define CONTROLLER_CORE_NODE_NODE_EVENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/job/trainer_state.h"
#include "controller/core/node/hold.h"
#include "controller/core/node/node.h"
#include "controller/core/node/node_check.h"

namespace paceline {

struct NodeConnected {
  NodeFacts facts;
  std::vector<TrainerReport> trainers;
  std::vector<CheckpointTaskResult> task_results = {};
  std::optional<CheckResult> check = {};
};
struct NodeReported {
  NodeName node;
  std::vector<TrainerReport> trainers;
  std::vector<CheckpointTaskResult> task_results = {};
  std::optional<CheckResult> check = {};
};
struct NodeDisconnected {
  NodeName node;
};

// A person's cordon or drain; the automation uses AutomaticDrainRequested.
struct HoldRequested {
  NodeName node;
  Hold hold;
};
struct UncordonRequested {
  NodeName node;
  std::string owner;
};
struct NodeResumeRequested {
  NodeName node;
  std::string owner;
};
// Requires: the node is not reachable.
struct LossDeclared {
  NodeName node;
  std::string owner;
  std::string reason;
};
// Requires: RefuseCheck has no objection.
struct CheckRequested {
  NodeName node;
};
// The automation wants the node emptied. If Cluster::RefuseAutomatic objects, it is not; if the
// objection is the brake, the brake is pulled.
struct AutomaticDrainRequested {
  NodeName node;
  std::string reason;
  DrainMode mode = DrainMode::kSwap;
  absl::Time until = absl::InfiniteFuture();  // Wall.
};
struct AutomationPauseRequested {
  std::string owner;
  std::string reason;
};
struct AutomationResumeRequested {
  std::string owner;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_NODE_EVENTS_H_
