// The weights of a model, in and out: parameters and buffers by name.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Copies weights into the model from
//   - a safetensors file, or a .pt file that torch.save made of a state dict,
//   - a directory in Hugging Face's layout (weights_directory.h),
//   - the directory of a checkpoint, of which only the model is taken.
// Other number formats are converted. A llama whose embedding is tied takes a file that holds it
// as lm_head.weight too. InvalidArgument when something cannot be read, or when names and shapes
// are not exactly the model's; the message then lists all that differ. The model is unchanged
// then, but for a checkpoint with damaged bytes.
absl::Status LoadWeights(const std::string& path, const Model& model);

// Writes a safetensors file atomically. Errors as WriteFileAtomically.
absl::Status SaveTensors(const std::string& path, const std::vector<NamedTensor>& tensors);
absl::Status SaveWeights(const std::string& path, const Model& model);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
