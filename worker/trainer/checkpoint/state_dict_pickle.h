// Reads the pickle inside a .pt file that torch.save made: of a state dict, or of a dictionary in
// which one is, as training scripts save them.
//
// Nothing in the file is executed. What is no dictionary, list, number, text or tensor (the
// arguments of a script, a scheduler) is passed over as a thing of its class. (Torch's own C++
// reader does not take ordered dicts.)
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
  std::string storage_type;  // "FloatStorage", ...; where it has none, the dtype: "float8_e5m2".
  std::string storage_key;
  int64_t storage_elements = 0;  // Bytes, where it has no type.
  int64_t offset = 0;            // Elements.
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // Elements.
};

struct PickledStateDict {
  std::string key;  // Under which it is in the file's dictionary; empty: it is that.
  std::vector<PickledTensor> tensors;  // In its order.
};

// DataLoss, with the offset, when it is no pickle that torch.save makes; InvalidArgument when there
// is no state dict in it, or several of which none has a usual key ("model", "state_dict"), or what
// is in it is no plain tensor: quantised, for instance.
absl::StatusOr<PickledStateDict> ParseStateDictPickle(absl::string_view pickle);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_STATE_DICT_PICKLE_H_
