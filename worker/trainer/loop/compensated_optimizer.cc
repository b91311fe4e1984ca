#include "worker/trainer/loop/compensated_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cstddef>
#include <utility>

#include "worker/trainer/loop/compensated_update.h"

namespace paceline {
namespace {

std::vector<at::Tensor> ZerosLike(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> zeros;
  zeros.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters)
    zeros.push_back(at::zeros_like(parameter.detach()));
  return zeros;
}

class CompensatedSgd : public Optimizer {
 public:
  CompensatedSgd(const OptimizerConfig& config, std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters)),
        rule_{config.momentum, config.nesterov, config.weight_decay},
        compensation_(ZerosLike(parameters_)) {
    if (config.momentum > 0) velocities_ = ZerosLike(parameters_);
  }

  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& learning_rate, const at::Tensor& skip) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!gradients[i].defined()) continue;
      UpdateBySgd(rule_, {parameters[i], compensation_[i]},
                  velocities_.empty() ? at::Tensor() : velocities_[i],
                  {gradients[i], learning_rate, /*step=*/at::Tensor(), skip});
    }
  }

  std::vector<OptimizerSlot> Slots() const override {
    std::vector<OptimizerSlot> slots;
    if (!velocities_.empty()) slots.push_back({"momentum_buffer", velocities_});
    slots.push_back({kCompensation, compensation_, /*of_weights=*/true});
    return slots;
  }
  std::vector<at::Tensor> StepCounts() const override { return {}; }

 private:
  const SgdRule rule_;
  const std::vector<at::Tensor> compensation_;
  std::vector<at::Tensor> velocities_;  // Empty without momentum.
};

class CompensatedAdamW : public Optimizer {
 public:
  CompensatedAdamW(const OptimizerConfig& config, std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters)),
        rule_{config.beta1, config.beta2, config.epsilon, config.weight_decay},
        compensation_(ZerosLike(parameters_)),
        means_(ZerosLike(parameters_)),
        squares_(ZerosLike(parameters_)) {
    // In bfloat16 they would only count to 256.
    for (const at::Tensor& p : parameters_) {
      steps_.push_back(at::zeros({}, at::dtype(at::kFloat).device(p.device())));
    }
  }

  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& learning_rate, const at::Tensor& skip) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!gradients[i].defined()) continue;
      steps_[i].add_(1);
      UpdateByAdamW(rule_, {parameters[i], compensation_[i]}, means_[i], squares_[i],
                    {gradients[i], learning_rate, steps_[i], skip});
      if (skip.defined()) steps_[i].sub_(skip);
    }
  }

  std::vector<OptimizerSlot> Slots() const override {
    return {{"exp_avg", means_},
            {"exp_avg_sq", squares_},
            {kCompensation, compensation_, /*of_weights=*/true}};
  }
  std::vector<at::Tensor> StepCounts() const override { return steps_; }

 private:
  const AdamWRule rule_;
  const std::vector<at::Tensor> compensation_;
  const std::vector<at::Tensor> means_;
  const std::vector<at::Tensor> squares_;
  std::vector<at::Tensor> steps_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeCompensatedOptimizer(const OptimizerConfig& config,
                                                    std::vector<at::Tensor> parameters) {
  if (config.kind == OptimizerConfig::Kind::kAdamW) {
    return std::make_unique<CompensatedAdamW>(config, std::move(parameters));
  }
  return std::make_unique<CompensatedSgd>(config, std::move(parameters));
}

}  // namespace paceline
