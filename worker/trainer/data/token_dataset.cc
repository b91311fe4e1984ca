#include "worker/trainer/data/token_dataset.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "common/core/status_macros.h"
#include "worker/trainer/data/rows.h"

namespace paceline {

TokenDataset::TokenDataset(TokenFile file, int64_t sequence_length)
    : file_(std::move(file)), length_(sequence_length) {}

SampleFormat TokenDataset::format() const {
  SampleFormat format;
  format.sequence_length = length_;
  format.vocab_size = file_.vocab_size();
  return format;
}

Batch TokenDataset::Allocate(int64_t samples, bool pinned) const {
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(pinned);
  Batch batch;
  batch.inputs = at::empty({samples, length_}, options);
  batch.targets = at::empty({samples, length_}, options);
  return batch;
}

absl::Status TokenDataset::Read(absl::Span<const int64_t> indices, Batch* batch) const {
  PACELINE_RETURN_IF_ERROR(file_.CheckSize());
  const auto samples = static_cast<int64_t>(indices.size());
  SetRows(samples, batch);
  batch->tokens = samples * length_;
  batch->workload = static_cast<double>(batch->tokens) * static_cast<double>(length_);
  auto* input = batch->inputs.mutable_data_ptr<int64_t>();
  auto* target = batch->targets.mutable_data_ptr<int64_t>();
  for (int64_t index : indices) {
    PACELINE_RETURN_IF_ERROR(file_.Read(index * length_, length_, input));
    PACELINE_RETURN_IF_ERROR(file_.Read(index * length_ + 1, length_, target));
    input += length_;
    target += length_;
  }
  return absl::OkStatus();
}

}  // namespace paceline
