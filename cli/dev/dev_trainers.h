// The trainers that a worker of a dev cluster has left running. They outlive their daemon,
// so that taking a cluster down has to look for them by itself.
#ifndef CLI_DEV_DEV_TRAINERS_H_
#define CLI_DEV_DEV_TRAINERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace paceline {

// The trainer dirs below a worker's state directory in which a trainer lives.
std::vector<std::string> LiveTrainers(const std::string& worker_state_dir);

// Asks all of them to stop, kills those that still live after `grace`, and waits until none
// is left. Requires: the worker's daemon is gone, so that no new one is started.
absl::Status EndTrainers(const std::vector<std::string>& worker_state_dirs, absl::Duration grace);

}  // namespace paceline

#endif  // CLI_DEV_DEV_TRAINERS_H_
