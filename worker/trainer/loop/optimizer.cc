#include "worker/trainer/loop/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <optional>
#include <utility>

#include "worker/trainer/loop/compensated_optimizer.h"

namespace paceline {
namespace {

// Moves the gradients out of the parameters; undefined where there is none.
std::vector<at::Tensor> TakeGradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
  return gradients;
}

// Indices of parameters with the same type: the fused kernels take one type at a time.
using OfOneType = std::vector<size_t>;

// Leaves out parameters without a gradient.
std::vector<OfOneType> ByType(const std::vector<at::Tensor>& gradients) {
  std::map<at::ScalarType, OfOneType> types;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) types[gradients[i].scalar_type()].push_back(i);
  }
  std::vector<OfOneType> all;
  for (auto& [type, places] : types) all.push_back(std::move(places));
  return all;
}

std::vector<at::Tensor> Pick(const std::vector<at::Tensor>& tensors, const OfOneType& places) {
  std::vector<at::Tensor> picked;
  if (tensors.empty()) return picked;
  picked.reserve(places.size());
  for (const size_t place : places) picked.push_back(tensors[place]);
  return picked;
}

std::optional<at::Tensor> Optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(const OptimizerConfig& config, std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters)), config_(config) {
    if (config_.momentum == 0) return;
    // Starting from zero, the first velocity is the first gradient, as in torch.optim.SGD.
    for (const at::Tensor& p : parameters_) velocities_.push_back(at::zeros_like(p.detach()));
  }

  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& learning_rate, const at::Tensor& skip) override {
    at::NoGradGuard no_grad;
    for (const OfOneType& one : ByType(gradients)) {
      at::_fused_sgd_(Pick(parameters, one), Pick(gradients, one), Pick(velocities_, one),
                      config_.weight_decay, config_.momentum, learning_rate, /*dampening=*/0,
                      config_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                      /*grad_scale=*/{}, Optional(skip));
    }
  }

  std::vector<OptimizerSlot> Slots() const override {
    if (velocities_.empty()) return {};
    return {{"momentum_buffer", velocities_}};
  }
  std::vector<at::Tensor> StepCounts() const override { return {}; }

 private:
  const OptimizerConfig config_;
  std::vector<at::Tensor> velocities_;  // Empty without momentum.
};

class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(const OptimizerConfig& config, std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters)), config_(config) {
    for (const at::Tensor& p : parameters_) {
      means_.push_back(at::zeros_like(p.detach()));
      squares_.push_back(at::zeros_like(p.detach()));
      // Not in the parameter's own type: bf16 only counts to 256.
      steps_.push_back(at::zeros({}, at::dtype(at::kFloat).device(p.device())));
    }
  }

  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& learning_rate, const at::Tensor& skip) override {
    at::NoGradGuard no_grad;
    for (const OfOneType& one : ByType(gradients)) {
      const std::vector<at::Tensor> steps = Pick(steps_, one);
      at::_foreach_add_(steps, 1);
      at::_fused_adamw_(Pick(parameters, one), Pick(gradients, one), Pick(means_, one),
                        Pick(squares_, one), /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                        config_.beta1, config_.beta2, config_.weight_decay, config_.epsilon,
                        /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, Optional(skip));
      if (skip.defined()) at::_foreach_add_(steps, skip, /*alpha=*/-1);
    }
  }

  std::vector<OptimizerSlot> Slots() const override {
    return {{"exp_avg", means_}, {"exp_avg_sq", squares_}};
  }
  std::vector<at::Tensor> StepCounts() const override { return steps_; }

 private:
  const OptimizerConfig config_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> squares_;
  std::vector<at::Tensor> steps_;  // The kernel needs one per parameter.
};

}  // namespace

Optimizer::Optimizer(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}

void Optimizer::Step(const at::Tensor& learning_rate, const at::Tensor& skip) {
  Update(parameters_, TakeGradients(parameters_), learning_rate, skip);
}

std::vector<at::Tensor> Optimizer::State() const {
  std::vector<at::Tensor> state = TensorsOf(Slots());
  for (const at::Tensor& count : StepCounts()) state.push_back(count);
  return state;
}

void Optimizer::Reset() {
  const at::NoGradGuard no_grad;
  if (const std::vector<at::Tensor> state = State(); !state.empty()) at::_foreach_zero_(state);
}

std::vector<at::Tensor> TensorsOf(const std::vector<OptimizerSlot>& slots) {
  std::vector<at::Tensor> tensors;
  for (const OptimizerSlot& slot : slots) {
    tensors.insert(tensors.end(), slot.tensors.begin(), slot.tensors.end());
  }
  return tensors;
}

std::vector<at::Tensor> AveragedState(const Optimizer& optimizer) {
  std::vector<OptimizerSlot> slots;
  for (OptimizerSlot& slot : optimizer.Slots()) {
    if (!slot.of_weights) slots.push_back(std::move(slot));
  }
  return TensorsOf(slots);
}

std::vector<at::Tensor> CompensationOf(const Optimizer& optimizer) {
  for (const OptimizerSlot& slot : optimizer.Slots()) {
    if (slot.of_weights) return slot.tensors;
  }
  return {};
}

at::Tensor MakeLearningRate(c10::Device device) {
  return at::zeros(
      {}, at::TensorOptions().device(device).dtype(device.is_cpu() ? at::kDouble : at::kFloat));
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         std::vector<at::Tensor> parameters) {
  if (config.compensated) return MakeCompensatedOptimizer(config, std::move(parameters));
  if (config.kind == OptimizerConfig::Kind::kAdamW) {
    return std::make_unique<AdamWOptimizer>(config, std::move(parameters));
  }
  return std::make_unique<SgdOptimizer>(config, std::move(parameters));
}

}  // namespace paceline
