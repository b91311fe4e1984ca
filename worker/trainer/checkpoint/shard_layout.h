// The layout of a rank's entries in its shard.
//
// The file has the length, the JSON header, padded so that the data begins at a multiple of 4096,
// and then the entries without gaps, as safetensors requires. Entries with sizes divisible by 64
// come first, then by 32, by 16 and so on: so each is aligned to its elements, and those of the
// first kind to 64. The header also says where each entry is in its whole tensor, in the words of
// torch.distributed.checkpoint, whose HuggingFaceStorageReader so reads a checkpoint's directory.
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

// Consecutive rows of a tensor, or of a slice of it, that become one entry of the shard.
struct ShardEntry {
  std::string name;            // As in the manifest and the shard.
  std::vector<int64_t> shape;  // Of the whole tensor.
  int64_t first_row = 0;       // In the whole tensor.
  at::Tensor rows;             // Contiguous, detached, on the device.
  // Of the first element in the whole tensor. Empty where the rows are whole.
  std::vector<int64_t> offsets = {};
};

struct ShardLayout {
  std::string header;                   // Everything before the data.
  std::vector<size_t> order;            // Entry indices in file order.
  std::vector<ManifestTensor> tensors;  // In file order, with slices but no checksums.
  int64_t bytes = 0;                    // Size of the file.
};

// Lays out the shard `file`. InvalidArgument when a name occurs twice, or safetensors lacks a
// tensor's type.
absl::StatusOr<ShardLayout> LayOutShard(const std::string& file,
                                        const std::vector<const ShardEntry*>& entries);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_SHARD_LAYOUT_H_
