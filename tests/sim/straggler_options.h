// Options of the straggler loop for histories of a minute or two: they wait for a fraction of the
// default times.
#ifndef TESTS_SIM_STRAGGLER_OPTIONS_H_
#define TESTS_SIM_STRAGGLER_OPTIONS_H_

#include "absl/time/time.h"
#include "controller/core/stragglers/job/job_stragglers.h"

namespace paceline::sim {

inline StragglerOptions ShortHistoryOptions() {
  StragglerOptions options;
  options.detector.warm_up_steps = 5;
  options.detector.release_steps = 10;
  options.detector.persistent_steps = 30;
  options.detector.persistent_s = 0;
  options.detector.recurrence_steps = 300;
  options.ladder.min_steps = 64;
  options.plan_every = absl::Seconds(1);
  RemedyOptions& remedy = options.remedy;
  remedy.costs.cold_start_s = 1;
  remedy.costs.shrink_s = 0.5;
  remedy.cool_down = absl::Seconds(5);
  remedy.ladder_window = absl::Seconds(15);
  remedy.pause = absl::Seconds(20);
  remedy.doubt = absl::Seconds(2);
  remedy.order_timeout = absl::Seconds(20);
  remedy.check_timeout = absl::Seconds(20);
  remedy.settling_steps = 10;
  remedy.min_check_steps = 40;
  remedy.check_steps = 200;
  return options;
}

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_OPTIONS_H_
