#include "worker/trainer/data/dataset.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// Changes the number of rows. Requires: the batch's memory has room for them.
void SetRows(int64_t samples, Batch* batch) {
  batch->samples = samples;
  for (at::Tensor* tensor : {&batch->inputs, &batch->targets}) {
    if (tensor->size(0) == samples) continue;
    std::vector<int64_t> sizes = tensor->sizes().vec();
    sizes[0] = samples;
    *tensor = tensor->as_strided(sizes, tensor->strides());
  }
}

}  // namespace

std::string FormatText(const SampleFormat& format) {
  if (!format.image.has_value()) return "tokens";
  const ImageFormat& image = *format.image;
  return absl::StrCat("images of ", image.channels, " x ", image.height, " x ", image.width, " in ",
                      image.classes, " classes");
}

absl::Status Dataset::Read(absl::Span<const int64_t> indices, Batch* batch) const {
  const auto samples = static_cast<int64_t>(indices.size());
  SetRows(samples, batch);
  const int64_t length = format().sequence_length.value_or(0);
  batch->tokens = samples * length;
  batch->workload = length > 0 ? static_cast<double>(batch->tokens) * static_cast<double>(length)
                               : static_cast<double>(samples);
  return ReadRows(indices, 0, batch);
}

}  // namespace paceline
