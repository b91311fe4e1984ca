// Weights as people publish them: safetensors files, files written by torch.save, and directories
// in Hugging Face's layout. The first bytes of a file decide what it is, not its name.
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
  std::string type;  // As named in the file: "F32", "FloatStorage", "float8_e5m2".
  std::optional<at::ScalarType> torch_type;  // Empty: torch cannot read it.
  at::Tensor tensor;                         // Undefined without a type. Read-only.
};

struct FoundWeights {
  std::map<std::string, FoundTensor> tensors;
  std::vector<std::string> notes;  // For people: notes on how the weights were found.
  std::vector<std::shared_ptr<const SafetensorsFile>> maps;  // The tensors are views of these.
};

// Opens a safetensors file, a .pt file of torch.save (a state dict, or a dictionary with one), or a
// directory with model.safetensors, pytorch_model.bin, or several files and an index. NotFound,
// naming the file, when one is missing; DataLoss when one is damaged or contradicts the index;
// InvalidArgument, with advice, when `path` is anything else.
absl::StatusOr<FoundWeights> FindWeights(const std::string& path);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_FILE_H_
