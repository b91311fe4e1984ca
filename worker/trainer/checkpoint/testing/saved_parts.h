// Checkpoints of several ranks, saved by one process, for tests.
#ifndef WORKER_TRAINER_CHECKPOINT_TESTING_SAVED_PARTS_H_
#define WORKER_TRAINER_CHECKPOINT_TESTING_SAVED_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/checkpoint/shard_layout.h"

namespace paceline {

// The directory of a checkpoint that is not there yet, in a new one.
std::string NewCheckpointDirectory();

// Saves the entries of each rank, of `shards` in a replica, and completes the checkpoint. Returns
// the error of what fails first.
absl::Status SaveParts(const std::string& directory,
                       const std::vector<std::vector<ShardEntry>>& ranks, int shards = 1);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TESTING_SAVED_PARTS_H_
