#include "worker/trainer/comm/int8_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace paceline {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t RowsOf(int64_t values) { return (values + kInt8Row - 1) / kInt8Row; }

}  // namespace

Int8Sum::Int8Sum(Int8Codec& codec, Group& group, int64_t values, const at::TensorOptions& options)
    : codec_(codec),
      group_(group),
      values_(values),
      rows_((RowsOf(values) + group.size() - 1) / group.size()) {
  const int64_t part_bytes = rows_ * (kInt8Row + kFloatBytes);
  own_ = at::zeros({group.size(), part_bytes}, options.dtype(at::kByte));
  received_ = at::zeros_like(own_);
}

at::Tensor Int8Sum::PartOf(const at::Tensor& vector, int64_t member) const {
  const int64_t part = rows_ * kInt8Row;
  const int64_t first = std::min(member * part, values_);
  return vector.narrow(0, first, std::min(part, values_ - first));
}

Int8Sum::Codes Int8Sum::CodesOf(const at::Tensor& messages, int64_t place, int64_t member) const {
  const int64_t part = rows_ * kInt8Row;
  const int64_t count = std::clamp<int64_t>(values_ - member * part, 0, part);
  const at::Tensor message = messages.select(0, place);
  return {message.narrow(0, 0, count).view(at::kChar),
          message.narrow(0, part, RowsOf(count) * kFloatBytes).view(at::kFloat)};
}

int64_t Int8Sum::Sum(at::Tensor vector, at::Tensor rest) {
  const at::NoGradGuard no_grad;
  rest.zero_();
  const int members = group_.size();
  if (members == 1) return 0;
  for (int member = 0; member < members; ++member) {
    const Codes codes = CodesOf(own_, member, member);
    codec_.Encode(PartOf(vector, member), PartOf(rest, member), codes.quantized, codes.scales);
  }
  group_.ExchangeParts(received_.flatten(), own_.flatten());

  const int self = group_.torch_group()->getRank();
  at::Tensor sum = at::zeros_like(PartOf(vector, self));
  for (int member = 0; member < members; ++member) {
    const Codes codes = CodesOf(received_, member, self);
    codec_.AddDecoded(codes.quantized, codes.scales, 1, sum);
  }
  at::Tensor left_out = at::zeros_like(sum);
  const Codes codes = CodesOf(own_, 0, self);
  codec_.Encode(sum, left_out, codes.quantized, codes.scales);
  PartOf(rest, self).add_(left_out);
  group_.Gather(received_.flatten(), own_.select(0, 0));

  vector.zero_();
  for (int member = 0; member < members; ++member) {
    const Codes of_member = CodesOf(received_, member, member);
    codec_.AddDecoded(of_member.quantized, of_member.scales, 1, PartOf(vector, member));
  }
  return 2 * (members - 1) * own_.size(1);
}

}  // namespace paceline
