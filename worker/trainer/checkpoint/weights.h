// Loads and saves the weights of a model: parameters and buffers by name.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// Copies weights, or of each tensor that is a slice that slice, into the model from
//   - a safetensors file, or a state dict written by torch.save,
//   - a directory in Hugging Face's layout (weights_directory.h),
//   - a checkpoint's directory, of which only the model is used.
// Converts other floating-point formats. Returns notes for people: what was skipped, and why that
// is harmless (weights_fit.h). InvalidArgument when something cannot be read or does not fit; the
// model is then unchanged, unless a checkpoint has damaged bytes.
absl::StatusOr<std::vector<std::string>> LoadWeights(const std::string& path,
                                                     const ModelTensors& model);

// Writes a safetensors file atomically. Errors as for WriteFileAtomically.
absl::Status SaveTensors(const std::string& path, const std::vector<NamedTensor>& tensors);

// Saves a model's tensors under all their names. FailedPrecondition: a tensor has a NaN and
// `save_nan` is false, or the model is sharded.
absl::Status SaveWeights(const std::string& path, const ModelTensors& model, bool save_nan);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_H_
