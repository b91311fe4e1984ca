// What a rank reports about one of its steps, and with whom it is compared.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_SAMPLE_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_SAMPLE_H_

#include <cstdint>

namespace paceline {

// A rank is known by its index in the list of all. Nodes and peer groups are small numbers >= 0
// that the caller chooses.
struct DetectorRank {
  int node = 0;
  int peer_group = 0;  // Same pipeline stage, role and hardware.
};

// Seconds by the rank's own monotonic clock. A wait for data may be NaN, not known, and so may one
// of forward and backward; 0 is a duration like others. Only known values are compared: waits among
// the ranks that report them, and the passes that most ranks of a step report.
struct StepSample {
  int rank = 0;
  int64_t step = 0;  // Any ascending numbers; gaps do not matter.
  double forward_s = 0;
  double backward_s = 0;  // Without waiting for others.
  double data_wait_s = 0;
  double wall_s = 0;    // The whole step, waits included; 0: not measured.
  double workload = 0;  // Proportional to the work of the step; 0: not known.
  // Not typical (checkpoint, evaluation, profile, compilation): the step is left out for all ranks.
  bool masked = false;
};

// What is kept of a sample, of each rank of a step. Seconds.
struct StepCell {
  float forward_s = 0;
  float backward_s = 0;
  float data_wait_s = 0;
  float wall_s = 0;
  float workload = 0;
  bool present = false;  // The rank has reported the step.
  bool masked = false;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_SAMPLE_H_
