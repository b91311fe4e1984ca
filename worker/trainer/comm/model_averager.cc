#include "worker/trainer/comm/model_averager.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/ScalarType.h>

#include <utility>

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

}  // namespace

int64_t AllReduceBytes(int64_t bytes, int ranks) { return 2 * (ranks - 1) * bytes / ranks; }

ModelAverager::ModelAverager(const std::vector<at::Tensor>& parameters)
    : parameters_(Detached(parameters)), type_(CommonType(parameters)) {}

void ModelAverager::Arrange(const std::vector<at::Tensor>& state, int64_t riders) {
  const size_t tensors = parameters_.size() + state.size();
  int64_t values = riders;
  for (const at::Tensor& tensor : parameters_) values += tensor.numel();
  for (const at::Tensor& tensor : state) values += tensor.numel();
  if (views_.size() == tensors && buffer_.numel() >= values) return;
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

int64_t ModelAverager::Average(const Mean& mean) {
  const int members = mean.group.size();
  if (members == 1) return 0;
  const at::NoGradGuard no_grad;
  const int64_t riders = mean.riders.defined() ? mean.riders.numel() : 0;
  Arrange(mean.state, riders);
  std::vector<at::Tensor> averaged = parameters_;
  for (const at::Tensor& tensor : mean.state) averaged.push_back(tensor.detach());
  int64_t values = 0;
  for (const at::Tensor& tensor : averaged) values += tensor.numel();

  at::_foreach_copy_(views_, averaged);
  buffer_.narrow(0, 0, values).div_(members);
  if (riders > 0) buffer_.narrow(0, values, riders).copy_(mean.riders);
  const at::Tensor sent = buffer_.narrow(0, 0, values + riders);
  mean.group.Sum(sent);
  if (riders > 0) at::Tensor(mean.riders).copy_(buffer_.narrow(0, values, riders));
  if (mean.measure) {
    // In place, since the parameters are overwritten next.
    const std::vector<at::Tensor> means(views_.begin(),
                                        views_.begin() + static_cast<int64_t>(parameters_.size()));
    at::_foreach_sub_(parameters_, means);
    drift_ = at::linalg_vector_norm(at::stack(at::_foreach_norm(parameters_)));
  }
  at::_foreach_copy_(averaged, views_);
  return AllReduceBytes(static_cast<int64_t>(sent.nbytes()), members);
}

double ModelAverager::drift() const { return drift_.defined() ? drift_.item<double>() : 0; }

}  // namespace paceline
