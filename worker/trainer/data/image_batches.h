// Batches of tensors out of a mapped image shard.
//
// A pixel p becomes (p / 255 - 0.5) / 0.5. The tensors of a batch are the loader's own and
// are overwritten by its next batch: nothing is allocated per step.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_DATA_IMAGE_BATCHES_H_
#define WORKER_TRAINER_DATA_IMAGE_BATCHES_H_

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "common/image_shard/image_shard.h"

namespace paceline {

struct ImageBatch {
  at::Tensor images;  // Float [batch, channels, height, width].
  at::Tensor labels;  // Int64 [batch].
};

class ImageBatches {
 public:
  // Batches hold at most `batch` images and lie on `device`. `shard` outlives this.
  ImageBatches(const ImageShard& shard, int64_t batch, at::Device device);

  // The images with these indices. Requires: at most `batch` of them.
  ImageBatch Load(absl::Span<const int64_t> indices);

 private:
  const ImageShard& shard_;
  const at::Device device_;
  std::array<float, 256> values_;  // Of each pixel byte.
  at::Tensor images_;              // On the host (pinned for a GPU), as are the labels.
  at::Tensor labels_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_IMAGE_BATCHES_H_
