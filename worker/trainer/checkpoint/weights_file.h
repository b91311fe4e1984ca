// Weights as people publish them: safetensors files, what torch.save wrote, directories in Hugging
// Face's layout. What a file is, its first bytes say, not its name.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_FILE_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_FILE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors/safetensors.h"

namespace paceline {

struct FoundTensor {
  std::vector<int64_t> shape;
  std::string type;  // As the file has it: "F32", "FloatStorage", "float8_e5m2".
  std::optional<at::ScalarType> torch_type;  // Empty: none that can be read.
  at::Tensor tensor;                         // Undefined without. Not to be written to.
};

struct FoundWeights {
  std::map<std::string, FoundTensor> tensors;
  std::vector<std::string> notes;  // What a person should know of how they were found.
  std::vector<std::shared_ptr<const SafetensorsFile>> maps;  // Of which tensors are views.
};

// A safetensors file, a .pt file of torch.save's (a state dict, or a dictionary in which one is),
// or a directory with model.safetensors or pytorch_model.bin, or with several files and an index.
// NotFound, with the name, when a file is missing; DataLoss when one is damaged or contradicts the
// index; InvalidArgument when it is something else: what, and what to do.
absl::StatusOr<FoundWeights> FindWeights(const std::string& path);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_FILE_H_
