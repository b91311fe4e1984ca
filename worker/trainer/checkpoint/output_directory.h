// Where a job's weights go: <checkpoint.directory>/<job id>, and the folder of export_final.
// Made and tried before the first step, so that no training is lost to a directory that cannot
// be written.
#ifndef WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Makes `directory` with all above it, and writes and removes a file there, whose name is this
// rank's own. InvalidArgument, naming the job file's `key`, when it cannot.
absl::Status PrepareOutputDirectory(absl::string_view key, const std::string& directory, int rank);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
