// What makes nodes slow, or their daemons tell nonsense about steps. In histories made for it.
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

  // Until the quiet.
  void Start();

 private:
  void Repeat(Micros mean, void (StragglerFaults::*one)());
  void SlowNode();
  void SlowHalf();
  void TellNonsense();

  // Until then, or the quiet.
  void Slow(SimNode& node, double factor, int64_t together, Micros until);
  // Slow and as fast as the others by turns.
  void Alternate(SimNode& node, double factor, Micros period, Micros until);
  std::vector<SimNode*> Healthy() const;

  World& world_;
  Random random_;
  int64_t together_ = 0;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_FAULTS_H_
