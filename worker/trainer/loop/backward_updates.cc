#include "worker/trainer/loop/backward_updates.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>
#include <utility>

namespace paceline {

class BackwardUpdates::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(BackwardUpdates& updates, size_t index) : updates_(updates), index_(index) {}

  void operator()(const at::Tensor& /*parameter*/) override { updates_.Update(index_); }

 private:
  BackwardUpdates& updates_;
  const size_t index_;
};

BackwardUpdates::BackwardUpdates(const std::vector<NamedTensor>& parameters, Optimizer& optimizer)
    : named_(parameters),
      parameters_(TensorsOf(parameters)),
      optimizer_(optimizer),
      norms_(parameters.size()),
      gradients_(parameters.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // As NormsOfGradients.
    norm_type_ = c10::promoteTypes(norm_type_, parameters_[i].scalar_type());
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
  }
}

BackwardUpdates::~BackwardUpdates() {
  for (const at::Tensor& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

void BackwardUpdates::Begin(const at::Tensor& learning_rate) {
  for (at::Tensor& norm : norms_) norm.reset();
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  learning_rate_ = learning_rate;
}

void BackwardUpdates::Update(size_t index) {
  if (!learning_rate_.defined()) return;
  const at::NoGradGuard no_grad;
  // Its first part would have been taken for the whole.
  TORCH_CHECK(!norms_[index].defined(), named_[index].name,
              " has got a second gradient in one backward pass, after it was updated by the first");
  at::Tensor& gradient = gradients_[index];
  gradient = std::exchange(parameters_[index].mutable_grad(), at::Tensor());
  norms_[index] = at::linalg_vector_norm(gradient, 2, std::nullopt, /*keepdim=*/false, norm_type_);
  optimizer_.Update(parameters_, gradients_, learning_rate_, /*skip=*/{});
  gradient.reset();
}

GradientNorms BackwardUpdates::End() {
  learning_rate_.reset();
  std::vector<std::string> without;
  for (size_t i = 0; i < norms_.size(); ++i) {
    if (!norms_[i].defined()) without.push_back(named_[i].name);
  }
  RequireGradients(without);
  const at::NoGradGuard no_grad;
  GradientNorms norms;
  norms.each = at::stack(norms_);
  norms.total = at::linalg_vector_norm(norms.each);
  return norms;
}

}  // namespace paceline
