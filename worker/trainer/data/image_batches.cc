#include "worker/trainer/data/image_batches.h"

#include <ATen/ops/empty.h>

namespace paceline {

ImageBatches::ImageBatches(const ImageShard& shard, int64_t batch, at::Device device)
    : shard_(shard), device_(device) {
  for (size_t p = 0; p < values_.size(); ++p) {
    values_[p] = (static_cast<float>(p) / 255.0f - 0.5f) / 0.5f;
  }
  const ImageFormat& format = shard.format();
  const auto host = at::TensorOptions().pinned_memory(device.is_cuda());
  images_ = at::empty({batch, format.channels, format.height, format.width}, host);
  labels_ = at::empty({batch}, host.dtype(at::kLong));
}

ImageBatch ImageBatches::Load(absl::Span<const int64_t> indices) {
  const uint64_t image_bytes = shard_.format().image_bytes();
  float* image = images_.mutable_data_ptr<float>();
  int64_t* label = labels_.mutable_data_ptr<int64_t>();
  for (int64_t index : indices) {
    const uint8_t* pixels = shard_.image(index);
    for (uint64_t i = 0; i < image_bytes; ++i) image[i] = values_[pixels[i]];
    image += image_bytes;
    *label++ = shard_.labels()[static_cast<size_t>(index)];
  }
  const auto size = static_cast<int64_t>(indices.size());
  ImageBatch batch{images_, labels_};
  if (size < images_.size(0)) {
    batch = {images_.narrow(0, 0, size), labels_.narrow(0, 0, size)};
  }
  if (device_.is_cpu()) return batch;
  // Blocking, because the next batch overwrites the host's tensors.
  return {batch.images.to(device_), batch.labels.to(device_)};
}

}  // namespace paceline
