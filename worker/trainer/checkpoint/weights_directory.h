// The files of weights in Hugging Face's layout: a directory with model.safetensors or
// pytorch_model.bin, or with several files and an index, which says what is in which.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct WeightsIndex {
  std::string file;  // The index' own; empty: there is one file, and none.
  std::map<std::string, std::set<std::string>> files;  // The names of tensors, by file.
};

// Safetensors come first, and the single file before an index, as transformers has it. NotFound,
// with its name, when a file is missing; DataLoss when the index is damaged.
absl::StatusOr<WeightsIndex> ReadWeightsDirectory(const std::string& directory);

// DataLoss unless the file `name` has exactly the tensors that the index says.
absl::Status CheckAgainstIndex(const std::string& index, const std::string& name,
                               const std::set<std::string>& found,
                               const std::set<std::string>& expected);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
