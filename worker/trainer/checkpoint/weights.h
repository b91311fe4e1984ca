// The weights of a model, in and out: parameters and buffers by name.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Copies weights into the model from
//   - a safetensors file, or a file that torch.save made of a state dict,
//   - a directory in Hugging Face's layout (weights_directory.h),
//   - the directory of a checkpoint, of which only the model is taken.
// Other floating-point formats are converted. Returns what was passed over, and why that is
// harmless (weights_fit.h), for people. InvalidArgument when something cannot be read or does not
// fit; the model is unchanged then, but for a checkpoint with damaged bytes.
absl::StatusOr<std::vector<std::string>> LoadWeights(const std::string& path, const Model& model);

// Writes a safetensors file atomically. Errors as WriteFileAtomically.
absl::Status SaveTensors(const std::string& path, const std::vector<NamedTensor>& tensors);

// The same of a model, by all names of its tensors. FailedPrecondition: one has a NaN, and such are
// not saved.
absl::Status SaveWeights(const std::string& path, const Model& model, bool save_nan);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
