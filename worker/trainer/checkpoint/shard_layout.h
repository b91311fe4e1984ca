// Where a rank's entries lie in its shard.
//
// The file is the length, the JSON header, padded so that the data begins at a multiple of 4096,
// and the entries without gaps, as safetensors want it. Entries whose sizes are multiples of 64
// come first, then those of 32, of 16 and so on: so each lies at a multiple of its element, and
// those of 64 at one of 64.
#ifndef WORKER_TRAINER_CHECKPOINT_SHARD_LAYOUT_H_
#define WORKER_TRAINER_CHECKPOINT_SHARD_LAYOUT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"

namespace paceline {

// Consecutive rows of a tensor, to become one entry of the shard.
struct ShardEntry {
  std::string name;            // In manifest and shard.
  std::vector<int64_t> shape;  // Of the whole tensor.
  int64_t first_row = 0;
  at::Tensor rows;  // The rows themselves: contiguous, detached, on the device.
};

struct ShardLayout {
  std::string header;                   // All before the data.
  std::vector<size_t> order;            // Of the entries, in the file.
  std::vector<ManifestTensor> tensors;  // In this order, each with its slice but for the checksum.
  int64_t bytes = 0;                    // Of the file.
};

// Of the file with this name. InvalidArgument when a name comes twice, or a tensor has a type that
// safetensors lack.
absl::StatusOr<ShardLayout> LayOutShard(const std::string& file,
                                        const std::vector<const ShardEntry*>& entries);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_SHARD_LAYOUT_H_
