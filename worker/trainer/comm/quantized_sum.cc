#include "worker/trainer/comm/quantized_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace paceline {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

}  // namespace

QuantizedSum::QuantizedSum(RowCodec& codec, RowFormat format, Group& group, int64_t values,
                           const at::TensorOptions& options)
    : codec_(codec),
      format_(format),
      group_(group),
      values_(values),
      rows_((RowsOf(values) + group.size() - 1) / group.size()) {
  const int64_t part_bytes = rows_ * (CodeBytes(format, kRowValues) + kFloatBytes);
  own_ = at::zeros({group.size(), part_bytes}, options.dtype(at::kByte));
  received_ = at::zeros_like(own_);
}

at::Tensor QuantizedSum::PartOf(const at::Tensor& vector, int64_t member) const {
  const int64_t part = rows_ * kRowValues;
  const int64_t first = std::min(member * part, values_);
  return vector.narrow(0, first, std::min(part, values_ - first));
}

RowCodes QuantizedSum::CodesOf(const at::Tensor& messages, int64_t place, int64_t member) const {
  const int64_t part = rows_ * kRowValues;
  const int64_t count = std::clamp<int64_t>(values_ - member * part, 0, part);
  const at::Tensor message = messages.select(0, place);
  const at::Tensor scales =
      message.narrow(0, CodeBytes(format_, part), RowsOf(count) * kFloatBytes);
  return {message.narrow(0, 0, CodeBytes(format_, count)), scales.view(at::kFloat)};
}

int64_t QuantizedSum::Sum(at::Tensor vector, at::Tensor rest) {
  const at::NoGradGuard no_grad;
  rest.zero_();
  const int members = group_.size();
  if (members == 1) return 0;
  for (int member = 0; member < members; ++member) {
    codec_.Encode(format_, PartOf(vector, member), PartOf(rest, member),
                  CodesOf(own_, member, member));
  }
  group_.ExchangeParts(received_.flatten(), own_.flatten());

  const int self = group_.torch_group()->getRank();
  at::Tensor sum = at::zeros_like(PartOf(vector, self));
  for (int member = 0; member < members; ++member) {
    codec_.AddDecoded(format_, CodesOf(received_, member, self), 1, sum);
  }
  at::Tensor left_out = at::zeros_like(sum);
  codec_.Encode(format_, sum, left_out, CodesOf(own_, 0, self));
  PartOf(rest, self).add_(left_out);
  group_.Gather(received_.flatten(), own_.select(0, 0));

  vector.zero_();
  for (int member = 0; member < members; ++member) {
    codec_.AddDecoded(format_, CodesOf(received_, member, member), 1, PartOf(vector, member));
  }
  return 2 * (members - 1) * own_.size(1);
}

}  // namespace paceline
