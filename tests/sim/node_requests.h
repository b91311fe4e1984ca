// Requests of people and the automation about nodes: cordons, drains, and their end.
//
// Thread-compatible.
#ifndef TESTS_SIM_NODE_REQUESTS_H_
#define TESTS_SIM_NODE_REQUESTS_H_

#include "controller/core/cluster/cluster.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class NodeRequests {
 public:
  explicit NodeRequests(World& world) : world_(world), random_(world.random.Fork()) {}

  // Makes requests from time to time until the quiet phase; then releases the nodes that jobs need.
  void Start();

 private:
  void Repeat(Micros mean, void (NodeRequests::*ask)());
  void AskForSomething();
  void AskAsAutomation();
  void LetGo();
  Hold DrawHold(const char* owner);

  World& world_;
  Random random_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_NODE_REQUESTS_H_
