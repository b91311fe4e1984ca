#include "worker/trainer/comm/quantized_mean.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace paceline {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Rows of each part when `values` are cut into `members` parts. A message is never empty.
int64_t RowsPerPart(int64_t values, int members) {
  return std::max(int64_t{1}, (RowsOf(values) + members - 1) / members);
}

}  // namespace

MeanMessages::MeanMessages(RowCodec& codec, RowFormat format, int members, int64_t values)
    : codec_(codec), format_(format), members_(members), rows_(RowsPerPart(values, members)) {}

int64_t MeanMessages::PartBytes() const {
  return CodeBytes(format_, part_values()) + rows_ * kFloatBytes;
}

int64_t MeanMessages::BytesSent(int64_t riders) const {
  return (members_ - 1) * (2 * PartBytes() + riders * kFloatBytes);
}

at::Tensor MeanMessages::PartOf(const at::Tensor& vector, int member) const {
  return vector.narrow(0, member * part_values(), part_values());
}

RowCodes MeanMessages::CodesOf(const at::Tensor& messages, int member) const {
  const at::Tensor message = messages.select(0, member);
  const int64_t code_bytes = CodeBytes(format_, part_values());
  return {message.narrow(0, 0, code_bytes),
          message.narrow(0, code_bytes, rows_ * kFloatBytes).view(at::kFloat)};
}

at::Tensor MeanMessages::RidersOf(const at::Tensor& messages, int member) const {
  const at::Tensor message = messages.select(0, member);
  return message.narrow(0, PartBytes(), message.numel() - PartBytes()).view(at::kFloat);
}

MeanMessages::Message MeanMessages::EncodeChange(const at::Tensor& change,
                                                 const at::Tensor& error) const {
  const auto bytes = change.options().dtype(at::kByte);
  const at::Tensor sent = at::empty({members_, PartBytes()}, bytes);
  for (int member = 0; member < members_; ++member) {
    codec_.Encode(format_, PartOf(change, member), PartOf(error, member), CodesOf(sent, member));
  }
  return {sent.flatten(), at::empty({sent.numel()}, bytes)};
}

MeanMessages::Message MeanMessages::EncodeMean(const at::Tensor& changes, const at::Tensor& error,
                                               const at::Tensor& riders) const {
  const at::Tensor received = changes.view({members_, -1});
  at::Tensor mean = at::zeros({part_values()}, error.options());
  for (int member = 0; member < members_; ++member) {
    codec_.AddDecoded(format_, CodesOf(received, member), 1.0F / static_cast<float>(members_),
                      mean);
  }
  const int64_t extra = riders.defined() ? riders.numel() : 0;
  const auto bytes = error.options().dtype(at::kByte);
  const at::Tensor sent = at::empty({1, PartBytes() + extra * kFloatBytes}, bytes);
  codec_.Encode(format_, mean, error, CodesOf(sent, 0));
  if (extra > 0) RidersOf(sent, 0).copy_(riders);
  return {sent.flatten(), at::empty({members_ * sent.numel()}, bytes)};
}

void MeanMessages::Decode(const at::Tensor& means, at::Tensor change, at::Tensor riders) const {
  const at::Tensor received = means.view({members_, -1});
  change.zero_();
  if (riders.defined()) riders.zero_();
  for (int member = 0; member < members_; ++member) {
    codec_.AddDecoded(format_, CodesOf(received, member), 1, PartOf(change, member));
    if (riders.defined()) riders.add_(RidersOf(received, member));
  }
}

QuantizedMean::QuantizedMean(RowCodec& codec, RowFormat format, Group& group,
                             const at::Tensor& reference)
    : group_(group),
      values_(reference.numel()),
      messages_(codec, format, group.size(), values_),
      reference_(reference.detach().clone()) {
  change_ = at::zeros({messages_.all_values()}, reference_.options());
  residuals_.own = at::zeros(change_.sizes(), reference_.options());
  residuals_.mean = at::zeros({messages_.part_values()}, reference_.options());
}

void QuantizedMean::SetReference(const at::Tensor& reference) {
  Resume(reference, reference_number_ + 1);
  before_.reset();
}

void QuantizedMean::Resume(const at::Tensor& reference, int64_t number) {
  reference_.copy_(reference);
  reference_number_ = number;
}

void QuantizedMean::SetResiduals(const Residuals& residuals) {
  if (residuals.own.defined()) residuals_.own.copy_(residuals.own);
  if (residuals.mean.defined()) residuals_.mean.copy_(residuals.mean);
}

int64_t QuantizedMean::Average(at::Tensor vector, at::Tensor riders) {
  if (group_.size() == 1) return 0;
  const at::NoGradGuard no_grad;
  before_ = {residuals_.own.clone(), residuals_.mean.clone()};
  at::Tensor change = change_.narrow(0, 0, values_);
  at::sub_out(change, vector, reference_);
  const MeanMessages::Message changes = messages_.EncodeChange(change_, residuals_.own);
  group_.ExchangeParts(changes.received, changes.sent);
  const MeanMessages::Message means =
      messages_.EncodeMean(changes.received, residuals_.mean, riders);
  group_.Gather(means.received, means.sent);
  messages_.Decode(means.received, change_, riders);
  at::add_out(vector, reference_, change);
  return messages_.BytesSent(riders.defined() ? riders.numel() : 0);
}

void QuantizedMean::Accept() {
  if (group_.size() == 1) return;
  const at::NoGradGuard no_grad;
  reference_.add_(change_.narrow(0, 0, values_));
  ++reference_number_;
  before_.reset();
}

}  // namespace paceline
