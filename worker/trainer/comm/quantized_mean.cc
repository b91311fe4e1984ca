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

// Rows of each part when `values` are cut into `members` parts.
int64_t RowsPerPart(int64_t values, int members) {
  return (RowsOf(values) + members - 1) / members;
}

}  // namespace

QuantizedMean::QuantizedMean(RowCodec& codec, RowFormat format, Group& group,
                             const at::Tensor& reference)
    : codec_(codec),
      format_(format),
      group_(group),
      values_(reference.numel()),
      rows_(RowsPerPart(values_, group.size())),
      reference_(reference.detach().clone()) {
  const int64_t part = rows_ * kRowValues;
  change_ = at::zeros({part * group.size()}, reference_.options());
  residuals_.own = at::zeros(change_.sizes(), reference_.options());
  residuals_.mean = at::zeros({part}, reference_.options());
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

QuantizedMean::Part QuantizedMean::PartOf(const at::Tensor& messages, int member,
                                          int64_t riders) const {
  const at::Tensor message = messages.select(0, member);
  const int64_t code_bytes = CodeBytes(format_, rows_ * kRowValues);
  const int64_t scale_bytes = rows_ * kFloatBytes;
  Part part;
  part.codes.codes = message.narrow(0, 0, code_bytes);
  part.codes.scales = message.narrow(0, code_bytes, scale_bytes).view(at::kFloat);
  part.riders = message.narrow(0, code_bytes + scale_bytes, riders * kFloatBytes).view(at::kFloat);
  return part;
}

int64_t QuantizedMean::Average(at::Tensor vector, at::Tensor riders) {
  const int members = group_.size();
  if (members == 1) return 0;
  const at::NoGradGuard no_grad;
  const int64_t part_values = rows_ * kRowValues;
  const int64_t part_bytes = CodeBytes(format_, part_values) + rows_ * kFloatBytes;
  const int64_t extra = riders.defined() ? riders.numel() : 0;
  const auto bytes = vector.options().dtype(at::kByte);
  const auto part_of = [&](const at::Tensor& flat, int64_t member) {
    return flat.narrow(0, member * part_values, part_values);
  };

  before_ = {residuals_.own.clone(), residuals_.mean.clone()};
  at::Tensor change = change_.narrow(0, 0, values_);
  at::sub_out(change, vector, reference_);
  at::Tensor own = at::empty({members, part_bytes}, bytes);
  at::Tensor received = at::empty({members, part_bytes}, bytes);
  for (int member = 0; member < members; ++member) {
    codec_.Encode(format_, part_of(change_, member), part_of(residuals_.own, member),
                  PartOf(own, member, 0).codes);
  }
  group_.ExchangeParts(received.flatten(), own.flatten());

  at::Tensor mean = at::zeros({part_values}, vector.options());
  for (int member = 0; member < members; ++member) {
    codec_.AddDecoded(format_, PartOf(received, member, 0).codes,
                      1.0F / static_cast<float>(members), mean);
  }
  at::Tensor encoded = at::empty({1, part_bytes + extra * kFloatBytes}, bytes);
  const Part part = PartOf(encoded, 0, extra);
  codec_.Encode(format_, mean, residuals_.mean, part.codes);
  if (extra > 0) at::Tensor(part.riders).copy_(riders);
  at::Tensor means = at::empty({members, encoded.numel()}, bytes);
  group_.Gather(means.flatten(), encoded.flatten());

  change_.zero_();
  if (extra > 0) riders.zero_();
  for (int member = 0; member < members; ++member) {
    const Part from = PartOf(means, member, extra);
    codec_.AddDecoded(format_, from.codes, 1, part_of(change_, member));
    if (extra > 0) riders.add_(from.riders);
  }
  at::add_out(vector, reference_, change);
  return (members - 1) * (part_bytes + encoded.numel());
}

void QuantizedMean::Accept() {
  if (group_.size() == 1) return;
  const at::NoGradGuard no_grad;
  reference_.add_(change_.narrow(0, 0, values_));
  ++reference_number_;
  before_.reset();
}

}  // namespace paceline
