// What a user may set of the straggler detector.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_

namespace paceline {

struct DetectorOptions {
  int warm_up_steps = 20;      // Rows left out after construction and Restart.
  int open_steps = 64;         // How far the ranks' reports may lie apart.
  double max_step_s = 3600;    // A sample with a longer duration is invalid.
  int min_peers = 3;           // On other nodes, else no verdict.
  double min_slowdown = 0.05;  // What counts as slow, in ln; grows with the noise up to:
  double max_slowdown = 0.10;
  int release_steps = 20;      // Normal rows that end an episode.
  int persistent_steps = 120;  // Slow rows after which it is persistent, more in much noise,
  // and so much time, as far as it is measured: 120 steps of some jobs are a moment. Whether a
  // remedy pays is not decided here: the costlier it is, the more has to be lost before.
  double persistent_s = 10;
  int recurrence_steps = 1000;  // Episodes within so many rows count as one trouble.
  int recurrence_episodes = 3;  // So many make it persistent.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_
