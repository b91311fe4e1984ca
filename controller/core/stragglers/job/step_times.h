// One step of one rank as its trainer measured it: the part of StepRecord (proto/worker.proto) that
// matters for stragglers. Seconds by the rank's own clock.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STEP_TIMES_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STEP_TIMES_H_

#include <cmath>
#include <cstdint>

namespace paceline {

struct StepTimes {
  int64_t step = 0;  // 0-based.
  double data_wait_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double communication_s = 0;  // Of gradients, beyond the backward pass.
  double averaging_s = 0;      // Of parameters.
  int averaging_ranks = 0;     // Over this many ranks; 0: none in this step.
  double round_wait_s = 0;     // With Slipstream: for a round.
  double total_s = 0;          // All of it, waits included.
  double sent_bytes = 0;       // In all exchanges.
  double workload = 0;         // 0: not known.
  bool masked = false;         // Not typical.
};

// Longer steps are not believed.
inline constexpr double kLongestStepS = 3600;

// All of the step except waits for others.
inline double OwnSeconds(const StepTimes& times) {
  return times.total_s - times.communication_s - times.averaging_s - times.round_wait_s;
}

// Whether it can be true: its parts are times, and they fit into the whole.
inline bool IsPlausible(const StepTimes& times) {
  const auto is_time = [](double seconds) { return seconds >= 0 && seconds <= kLongestStepS; };
  return times.step >= 0 && is_time(times.data_wait_s) && is_time(times.forward_s) &&
         is_time(times.backward_s) && is_time(times.communication_s) &&
         is_time(times.averaging_s) && is_time(times.round_wait_s) && is_time(times.total_s) &&
         times.averaging_ranks >= 0 && OwnSeconds(times) >= 0 && std::isfinite(times.workload) &&
         times.workload >= 0 && std::isfinite(times.sent_bytes) && times.sent_bytes >= 0;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STEP_TIMES_H_
