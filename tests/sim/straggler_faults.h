// Makes nodes slow, or their daemons report nonsense about steps. Only in histories made for it.
//
// Thread-compatible.
#ifndef TESTS_SIM_STRAGGLER_FAULTS_H_
#define TESTS_SIM_STRAGGLER_FAULTS_H_

#include <vector>

#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class StragglerFaults {
 public:
  explicit StragglerFaults(World& world)
      : world_(world), random_(world.settings.straggler_seed + 1000) {}

  // Runs until the quiet phase.
  void Start();

 private:
  void Repeat(Micros mean, void (StragglerFaults::*one)());
  void SlowNode();
  void SlowHalf();
  void TellNonsense();

  // Slows the node until `until` or the quiet phase.
  void Slow(SimNode& node, double factor, int64_t together, Micros until);
  // The node is alternately slow and as fast as the others.
  void Alternate(SimNode& node, double factor, Micros period, Micros until);
  std::vector<SimNode*> Healthy() const;

  World& world_;
  Random random_;
  int64_t together_ = 0;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_FAULTS_H_
