#include "worker/trainer/comm/quantized_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "worker/trainer/comm/quantized_sum.h"

namespace paceline {

QuantizedGradients::QuantizedGradients(RowCodec& codec, RowFormat format,
                                       const std::vector<at::Tensor>& parameters)
    : codec_(codec), format_(format) {
  int64_t values = 0;
  for (const at::Tensor& parameter : parameters) {
    first_[parameter.unsafeGetTensorImpl()] = values;
    values += parameter.numel();
  }
  rest_ = at::zeros({values}, at::dtype(at::kFloat).device(parameters.front().device()));
  next_ = at::zeros_like(rest_);
}

std::unique_ptr<QuantizedGradients> QuantizedGradients::Make(
    RowCodec& codec, WireFormat format, const std::vector<at::Tensor>& parameters,
    const at::Tensor& rest) {
  if (format != WireFormat::kInt8 && format != WireFormat::kFp8) return nullptr;
  auto made = std::make_unique<QuantizedGradients>(codec, *RowFormatOf(format), parameters);
  if (rest.defined()) made->SetRest(rest);
  return made;
}

void QuantizedGradients::BeginPass() {
  if (std::exchange(is_finished_, false)) std::swap(rest_, next_);
  has_begun_ = is_broken_ = false;
  is_finite_ = at::Tensor();
  bytes_ = 0;
}

void QuantizedGradients::Average(at::Tensor gradients, const std::vector<at::Tensor>& parameters) {
  if (is_broken_) throw CollectiveError("mean of the gradients", "that of others has failed");
  has_begun_ = is_broken_ = true;
  const at::NoGradGuard no_grad;
  const at::Tensor vector = gradients.to(at::kFloat).div(group_->size());
  const at::Tensor rest = at::empty_like(vector);
  int64_t place = 0;  // In the vector.
  for (const at::Tensor& parameter : parameters) {
    const int64_t first = first_.at(parameter.unsafeGetTensorImpl());
    vector.narrow(0, place, parameter.numel()).add_(rest_.narrow(0, first, parameter.numel()));
    place += parameter.numel();
  }
  QuantizedSum sum(codec_, format_, *group_, vector.numel(), vector.options());
  try {
    bytes_ += sum.Sum(vector, rest);
  } catch (...) {
    Keep(rest, parameters);  // Others may have got through.
    throw;
  }
  Keep(rest, parameters);
  const at::Tensor finite = at::isfinite(vector).all();
  is_finite_ = is_finite_.defined() ? is_finite_.logical_and(finite) : finite;
  gradients.copy_(vector);
  is_broken_ = false;
}

// NaN would stay in the rest for ever.
void QuantizedGradients::Keep(const at::Tensor& rest, const std::vector<at::Tensor>& parameters) {
  int64_t place = 0;
  for (const at::Tensor& parameter : parameters) {
    const int64_t first = first_.at(parameter.unsafeGetTensorImpl());
    const at::Tensor left = rest.narrow(0, place, parameter.numel());
    const at::Tensor before = rest_.narrow(0, first, parameter.numel());
    next_.narrow(0, first, parameter.numel()).copy_(at::where(at::isfinite(left), left, before));
    place += parameter.numel();
  }
}

void QuantizedGradients::Finish() {
  const at::NoGradGuard no_grad;
  if (is_finite_.defined()) at::where_out(next_, is_finite_, next_, rest_);
  is_finished_ = true;
}

}  // namespace paceline
