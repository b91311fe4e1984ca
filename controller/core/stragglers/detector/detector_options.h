// The options of the straggler detector.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_

namespace paceline {

struct DetectorOptions {
  int warm_up_steps = 20;      // Rows left out after construction and Restart.
  int open_steps = 64;         // How far apart the ranks' reports may be.
  double max_step_s = 3600;    // A sample with a longer duration is invalid.
  int min_peers = 3;           // On other nodes; with fewer, no verdict.
  double min_slowdown = 0.05;  // What counts as slow, in ln; grows with the noise up to:
  double max_slowdown = 0.10;
  int release_steps = 20;      // Normal rows that end an episode.
  int persistent_steps = 120;  // Slow rows that make it persistent, more in much noise.
  // They must also have lasted this long, as far as is measured: 120 steps may be a moment. Whether
  // a remedy pays is not decided here.
  double persistent_s = 10;
  int recurrence_steps = 1000;  // Episodes within this many rows belong together.
  int recurrence_episodes = 3;  // This many make it persistent.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_DETECTOR_OPTIONS_H_
