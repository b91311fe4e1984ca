// Reads the pickle inside a .pt file that torch.save made of a state dict.
//
// It understands exactly what a state dict needs: an (ordered) dict of names and tensors,
// built by torch's two rebuilding functions. Nothing in the file is executed; any other
// class or instruction is an error. (Torch's own C++ reader does not take ordered dicts.)
#ifndef WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_
#define WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// A tensor as a strided view of a storage, which is a record of its own in the file.
struct PickledTensor {
  std::string name;
  std::string storage_type;  // "FloatStorage", ...
  std::string storage_key;
  int64_t storage_elements = 0;
  int64_t offset = 0;  // Elements.
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // Elements.
};

// The tensors of a state dict, in its order. DataLoss names the offset at which the pickle
// stops being one that torch.save makes of a state dict.
absl::StatusOr<std::vector<PickledTensor>> ParseStateDictPickle(absl::string_view pickle);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_
