// Reports a straggler that is not replaced in the end, in a job that leaves stragglers to the
// automation: one node of the job has been slow for hundreds of steps, a spare stands by for each
// of its ranks, and nothing has happened that the loop may wait for or rest after (IsDisturbed).
//
// Thread-compatible.
#ifndef TESTS_SIM_STRAGGLER_LIVENESS_H_
#define TESTS_SIM_STRAGGLER_LIVENESS_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "controller/core/stragglers/job/stragglers.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class StragglerLiveness {
 public:
  explicit StragglerLiveness(World& world) : world_(world) {}

  // The controller has started.
  void OnRestored() { watched_.clear(); }
  // It has handled an event.
  void OnStep(const Cluster& cluster, const Stragglers& stragglers);

 private:
  // While this stays the same, the same straggler slows the same steps down.
  using Situation = std::tuple<const SimNode*, double, Generation, PlanVersion>;
  struct Watched {
    Situation situation;
    Micros since = 0;
    int64_t step = 0;
    bool counted = false;
  };

  void Check(const Cluster& cluster, const Job& job, const RemedyPolicy& policy);
  // The only slow node of the job; null if there is none or more than one.
  const SimNode* FindSlow(const Job& job) const;
  bool IsDisturbed(const Cluster& cluster, const Job& job, const RemedyPolicy& policy,
                   const SimNode& slow) const;
  bool IsDisturbed(const SimNode& node) const;

  World& world_;
  std::map<JobId, Watched> watched_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_LIVENESS_H_
