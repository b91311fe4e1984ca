#include "worker/trainer/slipstream/optimizer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_round.h>
#include <ATen/ops/zeros.h>

namespace paceline {

at::Tensor OptimizerState::Fill(bool has_state) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> tensors = optimizer_.State();
  if (!flat_.defined()) {
    int64_t values = 0;
    for (const at::Tensor& tensor : tensors) values += tensor.numel();
    const auto options = at::TensorOptions().dtype(at::kFloat);
    flat_ = at::zeros({values}, tensors.empty() ? options : options.device(tensors[0].device()));
    int64_t offset = 0;
    for (const at::Tensor& tensor : tensors) {
      views_.push_back(flat_.as_strided(tensor.sizes(), tensor.strides(), offset));
      offset += tensor.numel();
    }
  }
  if (!has_state) {
    flat_.zero_();
  } else if (!tensors.empty()) {
    at::_foreach_copy_(views_, tensors);
  }
  return flat_;
}

void OptimizerState::Apply(int ranks) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> tensors = optimizer_.State();
  if (tensors.empty()) return;
  flat_.div_(ranks);
  at::_foreach_copy_(tensors, views_);
  const std::vector<at::Tensor> counts = optimizer_.StepCounts();
  if (!counts.empty()) at::_foreach_round_(counts);
}

}  // namespace paceline
