// Jobs whose stragglers are looked for, and what people do about them: they apply advice, and
// pause the automation.
//
// Thread-compatible.
#ifndef TESTS_SIM_STRAGGLER_REQUESTS_H_
#define TESTS_SIM_STRAGGLER_REQUESTS_H_

#include "proto/job_spec.pb.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Draws a job of 4 to 8 ranks.
v1::JobSpec DrawWatchedSpec(Random& random, int number, const Settings& settings);
// Draws how long its steps are, and whether ranks stall.
void DrawSteps(Random& random, JobFacts& facts);

class StragglerRequests {
 public:
  explicit StragglerRequests(World& world)
      : world_(world), random_(world.settings.straggler_seed + 2000) {}

  // Runs until the quiet phase.
  void Start();

 private:
  void Repeat(Micros mean, void (StragglerRequests::*ask)());
  void ApplyAdvice();
  void PauseOrResume();

  World& world_;
  Random random_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_REQUESTS_H_
