// Reads the pickle in a .pt file written by torch.save: a state dict, or a dictionary that contains
// one, as training scripts save them.
//
// Nothing in the file is executed. A value that is no dictionary, list, number, text or tensor (a
// script's arguments, a scheduler) becomes an opaque object of its class. (Torch's own C++ reader
// does not accept ordered dicts.)
#ifndef WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_
#define WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// A tensor as a strided view of a storage; the storage is a separate record in the file.
struct PickledTensor {
  std::string name;
  std::string storage_type;  // "FloatStorage", ...; without a type, the dtype: "float8_e5m2".
  std::string storage_key;
  int64_t storage_elements = 0;  // Bytes if the storage has no type.
  int64_t offset = 0;            // In elements.
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // In elements.
};

struct PickledStateDict {
  std::string key;                     // Its key in the file's dictionary; empty: it is the top.
  std::vector<PickledTensor> tensors;  // In file order.
};

// DataLoss, with the offset, when this is no pickle of torch.save. InvalidArgument when it has no
// state dict, or several without a usual key ("model", "state_dict"), or when a value is no plain
// tensor, for example a quantised one.
absl::StatusOr<PickledStateDict> ParseStateDictPickle(absl::string_view pickle);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_
