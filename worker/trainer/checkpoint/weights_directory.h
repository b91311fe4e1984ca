// Weights in Hugging Face's layout: a directory with model.safetensors or pytorch_model.bin, or
// with several files and an index that maps tensors to files.
#ifndef WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct WeightsIndex {
  std::string file;  // Name of the index file; empty: a single file without index.
  std::map<std::string, std::set<std::string>> files;  // Tensor names by file.
};

// Prefers safetensors, and a single file to an index, as transformers does. NotFound, naming the
// file, when one is missing; DataLoss when the index is damaged.
absl::StatusOr<WeightsIndex> ReadWeightsDirectory(const std::string& directory);

// DataLoss unless file `name` has exactly the tensors that the index lists for it.
absl::Status CheckAgainstIndex(const std::string& index, const std::string& name,
                               const std::set<std::string>& found,
                               const std::set<std::string>& expected);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_WEIGHTS_DIRECTORY_H_
