#include "worker/trainer/data/token_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {

TokenDataset::TokenDataset(TokenFile file, int64_t sequence_length, int64_t vocab_size)
    : file_(std::move(file)), length_(sequence_length), vocab_size_(vocab_size) {}

SampleFormat TokenDataset::format() const {
  SampleFormat format;
  format.sequence_length = length_;
  format.token_bytes = TokenBytes(file_.type());
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

bool TokenDataset::Expect(absl::Span<const int64_t> indices) const {
  return std::all_of(indices.begin(), indices.end(),
                     [this](int64_t index) { return file_.Expect(index * length_, length_ + 1); });
}

absl::Status TokenDataset::ReadRows(absl::Span<const int64_t> indices, int64_t row,
                                    Batch* batch) const {
  PACELINE_RETURN_IF_ERROR(file_.CheckSize());
  if (is_remote()) Expect(indices);  // So that they come beside each other.
  auto* input = batch->inputs.mutable_data_ptr<int64_t>() + row * length_;
  auto* target = batch->targets.mutable_data_ptr<int64_t>() + row * length_;
  for (int64_t index : indices) {
    PACELINE_RETURN_IF_ERROR(ReadSequence(index * length_, input));
    PACELINE_RETURN_IF_ERROR(ReadSequence(index * length_ + 1, target));
    input += length_;
    target += length_;
  }
  return absl::OkStatus();
}

absl::Status TokenDataset::ReadSequence(int64_t first, int64_t* tokens) const {
  PACELINE_ASSIGN_OR_RETURN(const int64_t largest, file_.Read(first, length_, tokens));
  if (vocab_size_ == 0 || largest < vocab_size_) return absl::OkStatus();
  const int64_t* const wrong = std::find_if(tokens, tokens + length_,
                                            [this](int64_t token) { return token >= vocab_size_; });
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": at offset ", file_.OffsetOf(first + (wrong - tokens)), ": token ",
                   *wrong, " is not less than model.vocab_size, which is ", vocab_size_,
                   "; give a larger model.vocab_size, or the right data.token_type"));
}

}  // namespace paceline
