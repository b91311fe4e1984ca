#include "tests/sim/node_requests.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tests/sim/sim_controller.h"

namespace paceline::sim {

void NodeRequests::Start() {
  Repeat(world_.settings.between_holds, &NodeRequests::AskForSomething);
  Repeat(world_.settings.between_automatic, &NodeRequests::AskAsAutomation);
  // A request at the very end of the faults could still be lost.
  world_.time.At(world_.settings.quiet + kSecond, [this] { LetGo(); });
}

void NodeRequests::Repeat(Micros mean, void (NodeRequests::*ask)()) {
  if (mean == kNever) return;
  const Micros at = world_.time.now() + random_.Exponential(mean);
  if (at >= world_.settings.quiet) return;
  world_.time.At(at, [this, mean, ask] {
    (this->*ask)();
    Repeat(mean, ask);
  });
}

Hold NodeRequests::DrawHold(const char* owner) {
  Hold hold;
  if (random_.Chance(0.8)) hold.drain = static_cast<DrainMode>(random_.Between(1, 4));
  hold.owner = owner;
  hold.reason = "its fan is loud";
  if (random_.Chance(0.5)) {
    hold.until = world_.controller->Now().wall + absl::Seconds(random_.Between(1, 30));
  }
  if (world_.settings.swaps > 0 && random_.Chance(world_.settings.swaps)) {
    hold.drain = DrainMode::kSwap;
    hold.until = world_.controller->Now().wall + absl::Seconds(random_.Between(5, 15));
  }
  return hold;
}

void NodeRequests::AskForSomething() {
  SimController& controller = *world_.controller;
  if (!controller.is_up()) return;
  SimNode& node = *world_.nodes[static_cast<size_t>(
      random_.Between(0, static_cast<int64_t>(world_.nodes.size()) - 1))];
  const auto& nodes = controller.cluster().nodes();
  const auto known = nodes.find(node.name());
  if (known == nodes.end()) return;
  const char* owner = random_.Chance(0.5) ? "ann" : "bob";
  switch (random_.Between(0, 7)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      Hold hold = DrawHold(owner);
      world_.trace.Add(owner, ": ", hold.drain.has_value() ? DrainModeName(*hold.drain) : "cordon",
                       " ", node.name().value());
      return controller.Apply(HoldRequested{node.name(), std::move(hold)});
    }
    case 4:
      return controller.Apply(UncordonRequested{node.name(), owner});
    case 5:
      world_.trace.Add(owner, ": resume ", node.name().value());
      return controller.Apply(NodeResumeRequested{node.name(), owner});
    case 6:
      // Declare only a node lost that certainly runs nothing.
      if (node.host_is_up() || IsReachable(known->second.state)) return;
      world_.trace.Add(owner, ": lost ", node.name().value());
      return controller.Apply(LossDeclared{node.name(), owner, "it burns"});
    default:
      if (random_.Chance(0.3))
        return controller.Apply(AutomationPauseRequested{owner, "hands off"});
      return controller.Apply(AutomationResumeRequested{owner});
  }
}

void NodeRequests::AskAsAutomation() {
  SimController& controller = *world_.controller;
  if (!controller.is_up()) return;
  const NodeName name = world_
                            .nodes[static_cast<size_t>(
                                random_.Between(0, static_cast<int64_t>(world_.nodes.size()) - 1))]
                            ->name();
  if (random_.Chance(0.3)) {
    return controller.Apply(NodeResumeRequested{name, std::string(kAutomationOwner)});
  }
  world_.trace.Add("automation: drain ", name.value());
  controller.Apply(AutomaticDrainRequested{name, "it is slow"});
}

void NodeRequests::LetGo() {
  SimController& controller = *world_.controller;
  if (!controller.is_up()) return world_.time.After(kSecond, [this] { LetGo(); });
  // The automation may still drain nodes.
  if (world_.settings.stragglers) world_.time.After(10 * kSecond, [this] { LetGo(); });
  int needed = 0;
  for (const auto& [id, job] : controller.cluster().jobs()) {
    const bool has_domains = job.request.placement.replica == ReplicaPlacement::kRequire;
    needed = std::max(needed, has_domains ? std::numeric_limits<int>::max() : job.request.ranks);
  }
  int open = 0;
  std::vector<NodeName> held;
  for (const auto& [name, node] : controller.cluster().nodes()) {
    if (node.holds.empty()) {
      open += node.facts.slots;
    } else {
      held.push_back(name);
    }
  }
  for (const NodeName& name : held) {
    if (open >= needed && random_.Chance(0.5)) continue;
    open += controller.cluster().nodes().at(name).facts.slots;
    world_.trace.Add("ann: resume ", name.value());
    controller.Apply(NodeResumeRequested{name, "ann"});
    if (!controller.is_up()) return;
  }
}

}  // namespace paceline::sim
