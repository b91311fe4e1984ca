// The weights of a model, in and out: parameters and buffers by name.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Copies the tensors of a safetensors file, or of a .pt file that torch.save made of a state
// dict, into the model. InvalidArgument when the file cannot be read, or when its names and
// shapes are not exactly the model's; the message then lists all that differ, and the model
// is unchanged.
absl::Status LoadWeights(const std::string& path, const Model& model);

// Writes a safetensors file atomically. Errors as WriteFileAtomically.
absl::Status SaveWeights(const std::string& path, const Model& model);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
