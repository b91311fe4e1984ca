// Where a job's weights go: <checkpoint.directory>/<job id>, made and tried before the first
// step, so that no training is lost to a directory that cannot be written.
#ifndef WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"

namespace paceline {

// Makes `directory` with all above it, and writes and removes a file there. InvalidArgument,
// naming checkpoint.directory, when it cannot.
absl::Status PrepareOutputDirectory(const std::string& directory);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
