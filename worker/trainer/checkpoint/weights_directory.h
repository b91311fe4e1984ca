// The files of weights in Hugging Face's layout: a directory with model.safetensors, or with
// several files and model.safetensors.index.json, which says what is in which.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors/safetensors.h"

namespace paceline {

// Maps the files. NotFound, with its name, when one is missing; DataLoss when one, or the index,
// is damaged or contradicts the others.
absl::StatusOr<std::vector<SafetensorsFile>> OpenWeightsDirectory(const std::string& directory);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
