#include "worker/trainer/comm/model_averager.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <utility>

#include "worker/trainer/loop/compensated_update.h"

namespace paceline {
namespace {

std::vector<at::Tensor> Detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> detached;
  detached.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
  return detached;
}

at::ScalarType CommonType(const std::vector<at::Tensor>& tensors) {
  at::ScalarType type = at::kFloat;
  for (const at::Tensor& tensor : tensors) type = c10::promoteTypes(type, tensor.scalar_type());
  return type;
}

int64_t CountValues(const std::vector<at::Tensor>& tensors) {
  int64_t values = 0;
  for (const at::Tensor& tensor : tensors) values += tensor.numel();
  return values;
}

bool AnyIsShort(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) {
    return c10::elementSize(tensor.scalar_type()) < sizeof(float);
  });
}

}  // namespace

int64_t AllReduceBytes(int64_t bytes, int ranks) { return 2 * (ranks - 1) * bytes / ranks; }

ModelAverager::ModelAverager(const std::vector<at::Tensor>& parameters,
                             std::vector<at::Tensor> compensation)
    : parameters_(Detached(parameters)),
      compensation_(std::move(compensation)),
      type_(CommonType(parameters)),
      values_(CountValues(parameters)),
      rounds_(AnyIsShort(parameters)) {}

void ModelAverager::Arrange(const std::vector<at::Tensor>& state, int64_t riders) {
  const size_t tensors = parameters_.size() + state.size();
  const int64_t values = values_ + CountValues(state) + riders;
  if (views_.size() >= tensors && buffer_.numel() >= values) return;
  buffer_ = at::empty({values}, parameters_.front().options().dtype(type_));
  views_.clear();
  int64_t offset = 0;
  for (size_t i = 0; i < tensors; ++i) {
    const at::Tensor& tensor =
        i < parameters_.size() ? parameters_[i] : state[i - parameters_.size()];
    views_.push_back(buffer_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

at::Tensor ModelAverager::Flat() {
  const at::NoGradGuard no_grad;
  Arrange({}, 0);
  const std::vector<at::Tensor> views = Views(parameters_.size());
  at::_foreach_copy_(views, parameters_);
  AddCompensation(views);
  return buffer_.narrow(0, 0, values_).to(at::kFloat);
}

at::Tensor ModelAverager::Part(size_t first, size_t end) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat{at::empty({0}, parameters_.front().options().dtype(at::kFloat))};
  for (size_t i = first; i < end; ++i) {
    flat.push_back(parameters_[i].reshape({-1}).to(at::kFloat));
  }
  return at::cat(flat);
}

void ModelAverager::SetPart(size_t first, size_t end, const at::Tensor& values) const {
  const at::NoGradGuard no_grad;
  int64_t offset = 0;
  for (size_t i = first; i < end; ++i) {
    const at::Tensor& parameter = parameters_[i];
    const int64_t count = parameter.numel();
    parameter.copy_(values.narrow(0, offset, count).view(parameter.sizes()));
    offset += count;
  }
}

std::vector<int64_t> ModelAverager::sizes() const {
  std::vector<int64_t> sizes;
  for (const at::Tensor& parameter : parameters_) sizes.push_back(parameter.numel());
  return sizes;
}

std::vector<at::Tensor> ModelAverager::Views(size_t count) const {
  return {views_.begin(), views_.begin() + static_cast<int64_t>(count)};
}

void ModelAverager::AddCompensation(const std::vector<at::Tensor>& views) const {
  for (size_t i = 0; i < compensation_.size(); ++i) views[i].add_(compensation_[i]);
}

// Averages the first `values` of the buffer and sums the `riders` after them.
int64_t ModelAverager::Reduce(Group& group, const at::Tensor& values, const at::Tensor& riders) {
  values.div_(group.size());
  at::Tensor sent = values;
  if (riders.defined()) {
    const int64_t offset = values.storage_offset() + values.numel();
    at::Tensor room = buffer_.narrow(0, offset, riders.numel());
    room.copy_(riders);
    sent = buffer_.narrow(0, values.storage_offset(), values.numel() + riders.numel());
    group.Sum(sent);
    at::Tensor(riders).copy_(room);
  } else {
    group.Sum(sent);
  }
  return AllReduceBytes(static_cast<int64_t>(sent.nbytes()), group.size());
}

void ModelAverager::StepFromMean(OuterStep& outer) {
  at::Tensor parameters = buffer_.narrow(0, 0, values_);
  const at::Tensor floats = parameters.to(at::kFloat);
  outer.Step(floats);
  if (type_ != at::kFloat) parameters.copy_(floats);
}

// In place: the parameters are overwritten next.
void ModelAverager::MeasureDrift() {
  const std::vector<at::Tensor> views = Views(parameters_.size());
  if (compensation_.empty()) at::_foreach_sub_(parameters_, views);
  // Of the whole weights: what a parameter leaves out may be more than their change.
  for (size_t i = 0; i < compensation_.size(); ++i) {
    parameters_[i].copy_(views[i].sub(parameters_[i]).sub_(compensation_[i]));
  }
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(parameters_)));
  if (!drift_.defined()) {
    drift_ = at::zeros({}, norm.options().device(at::kCPU).pinned_memory(norm.is_cuda()));
  }
  drift_.copy_(norm, /*non_blocking=*/true);
}

int64_t ModelAverager::Average(const Mean& mean) {
  if (mean.group.size() == 1) return 0;
  const at::NoGradGuard no_grad;
  Arrange(mean.state, mean.riders.defined() ? mean.riders.numel() : 0);
  std::vector<at::Tensor> averaged = parameters_;
  for (const at::Tensor& tensor : mean.state) averaged.push_back(tensor.detach());
  const int64_t state_values = CountValues(mean.state);
  const std::vector<at::Tensor> views = Views(averaged.size());
  latest_ = 0;
  at::_foreach_copy_(views, averaged);
  AddCompensation(views);
  int64_t bytes = 0;
  if (mean.quantized == nullptr) {
    bytes = Reduce(mean.group, buffer_.narrow(0, 0, values_ + state_values), mean.riders);
  } else {
    at::Tensor parameters = buffer_.narrow(0, 0, values_);
    at::Tensor floats = parameters.to(at::kFloat);
    bytes = mean.quantized->Average(floats, mean.riders);
    if (type_ != at::kFloat) parameters.copy_(floats);
    // State travels unquantised: rounding must not make second moments negative.
    if (state_values > 0) {
      bytes += Reduce(mean.group, buffer_.narrow(0, values_, state_values), at::Tensor());
    }
  }
  if (mean.outer != nullptr) StepFromMean(*mean.outer);
  if (mean.before_applying) {
    latest_ = values_ + state_values;
    mean.before_applying();
  }
  if (mean.outer != nullptr) {
    mean.outer->Accept();
  } else if (mean.quantized != nullptr && !rounds_) {
    mean.quantized->Accept();
  }
  if (mean.measure) MeasureDrift();
  at::_foreach_copy_(averaged, views);
  for (size_t i = 0; i < compensation_.size(); ++i) {
    SetWeights(views[i], {parameters_[i], compensation_[i]});
  }
  latest_ = values_ + state_values;
  return bytes;
}

at::Tensor ModelAverager::latest() const {
  return latest_ > 0 ? buffer_.narrow(0, 0, latest_) : at::Tensor();
}

double ModelAverager::drift() const { return drift_.defined() ? drift_.item<double>() : 0; }

}  // namespace paceline
