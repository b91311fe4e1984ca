#include "worker/trainer/data/image_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/core/status_macros.h"

namespace paceline {

ImageDataset::ImageDataset(ImageShard shard) : shard_(std::move(shard)) {
  for (size_t p = 0; p < values_.size(); ++p) {
    values_[p] = (static_cast<float>(p) / 255.0f - 0.5f) / 0.5f;
  }
}

SampleFormat ImageDataset::format() const {
  SampleFormat format;
  format.image = shard_.format();
  return format;
}

Batch ImageDataset::Allocate(int64_t samples, bool pinned) const {
  const ImageFormat& format = shard_.format();
  const auto options = at::TensorOptions().pinned_memory(pinned);
  Batch batch;
  batch.inputs = at::empty({samples, format.channels, format.height, format.width}, options);
  batch.targets = at::empty({samples}, options.dtype(at::kLong));
  return batch;
}

bool ImageDataset::Expect(absl::Span<const int64_t> indices) const {
  return std::all_of(indices.begin(), indices.end(),
                     [this](int64_t index) { return shard_.Expect(index); });
}

absl::Status ImageDataset::ReadRows(absl::Span<const int64_t> indices, int64_t row,
                                    Batch* batch) const {
  PACELINE_RETURN_IF_ERROR(shard_.CheckSize());
  if (is_remote()) Expect(indices);  // So that they come beside each other.
  const uint64_t image_bytes = shard_.format().image_bytes();
  std::vector<uint8_t> fetched(is_remote() ? image_bytes : 0);
  auto* image = batch->inputs.mutable_data_ptr<float>() + static_cast<uint64_t>(row) * image_bytes;
  auto* label = batch->targets.mutable_data_ptr<int64_t>() + row;
  for (int64_t index : indices) {
    if (is_remote()) PACELINE_RETURN_IF_ERROR(shard_.ReadImage(index, fetched.data()));
    const uint8_t* const pixels = is_remote() ? fetched.data() : shard_.image(index);
    for (uint64_t i = 0; i < image_bytes; ++i) image[i] = values_[pixels[i]];
    image += image_bytes;
    *label++ = shard_.labels()[static_cast<size_t>(index)];
  }
  return absl::OkStatus();
}

}  // namespace paceline
