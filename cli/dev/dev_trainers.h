// Trainers that a worker of a dev cluster has left running. They outlive their daemon, so taking a
// cluster down has to find them.
#ifndef CLI_DEV_DEV_TRAINERS_H_
#define CLI_DEV_DEV_TRAINERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace paceline {

// Returns the trainer directories below a worker's state directory that have a live trainer.
std::vector<std::string> LiveTrainers(const std::string& worker_state_dir);

// Asks all trainers to stop, kills those that are alive after `grace`, and waits until all are
// gone. Requires: the worker's daemon has ended, so that no new trainer starts.
absl::Status EndTrainers(const std::vector<std::string>& worker_state_dirs, absl::Duration grace);

}  // namespace paceline

#endif  // CLI_DEV_DEV_TRAINERS_H_
