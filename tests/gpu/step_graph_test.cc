// A recorded step does what the eager one does.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <vector>

#include "tests/gpu/gpu_test.h"

namespace paceline {
namespace {

constexpr int kSteps = 12;
constexpr int64_t kWidth = 64;
constexpr int64_t kSamples = 32;

// Two layers and AdamW, whose step meets the conditions of StepGraph::Run.
class Training {
 public:
  Training(const std::vector<at::Tensor>& initial, c10::Device device) {
    const auto options = at::TensorOptions().device(device);
    for (const at::Tensor& weight : initial) {
      weights_.push_back(weight.to(device).detach().clone().requires_grad_(true));
      means_.push_back(at::zeros_like(weights_.back().detach()));
      squares_.push_back(at::zeros_like(weights_.back().detach()));
      steps_.push_back(at::zeros({}, options));
    }
    inputs_ = at::empty({kSamples, kWidth}, options);
    targets_ = at::empty({kSamples, 1}, options);
    learning_rate_ = at::zeros({}, options);
    loss_ = at::zeros({}, options);
  }

  void SetStep(const at::Tensor& inputs, const at::Tensor& targets, double learning_rate) {
    inputs_.copy_(inputs);
    targets_.copy_(targets);
    learning_rate_.fill_(learning_rate);
  }

  void Step() {
    const at::Tensor loss =
        at::mse_loss(inputs_.matmul(weights_[0]).relu().matmul(weights_[1]), targets_);
    loss.backward();
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (at::Tensor& weight : weights_) {
      gradients.push_back(weight.grad());
      weight.mutable_grad().reset();
    }
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(weights_, gradients, means_, squares_, {}, steps_, learning_rate_, 0.9, 0.999,
                      0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    loss_.copy_(loss);
  }

  double loss() const { return loss_.item<double>(); }
  const std::vector<at::Tensor>& weights() const { return weights_; }

 private:
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> means_;
  std::vector<at::Tensor> squares_;
  std::vector<at::Tensor> steps_;
  at::Tensor inputs_;
  at::Tensor targets_;
  at::Tensor learning_rate_;
  at::Tensor loss_;
};

using StepGraphTest = GpuTest;

TEST_F(StepGraphTest, ReplayedStepsEqualEagerOnes) {
  const std::vector<at::Tensor> initial = {at::randn({kWidth, kWidth}).mul(0.1),
                                           at::randn({kWidth, 1}).mul(0.1)};
  Training eager(initial, device_);
  Training replayed(initial, device_);
  const std::unique_ptr<StepGraph> graph = platform_.MakeStepGraph();
  int calls = 0;
  at::Tensor inputs;
  at::Tensor targets;
  for (int step = 0; step < kSteps; ++step) {
    inputs = at::randn({kSamples, kWidth});
    targets = inputs.sum(1, /*keepdim=*/true).mul(0.1);
    const double learning_rate = 0.01 / (1 + step);
    eager.SetStep(inputs, targets, learning_rate);
    eager.Step();
    replayed.SetStep(inputs, targets, learning_rate);
    graph->Run([&] {
      ++calls;
      replayed.Step();
    });
    EXPECT_NEAR(replayed.loss(), eager.loss(), 1e-5) << step;
  }
  EXPECT_TRUE(graph->recorded());
  EXPECT_LT(calls, kSteps / 2);
  // Both losses are those of the last batch, because single batches differ.
  Training untrained(initial, device_);
  untrained.SetStep(inputs, targets, 0);
  untrained.Step();
  EXPECT_LT(replayed.loss(), untrained.loss());
  for (size_t i = 0; i < initial.size(); ++i) {
    EXPECT_TRUE(replayed.weights()[i].allclose(eager.weights()[i], 1e-5, 1e-6)) << i;
  }
}

TEST_F(StepGraphTest, StepThatWaitsForTheDeviceCannotBeRecorded) {
  const std::unique_ptr<StepGraph> graph = platform_.MakeStepGraph();
  const at::Tensor tensor = at::full({}, 1.0, at::TensorOptions().device(device_));
  const auto step = [&] { tensor.add(1).item<double>(); };
  for (int i = 0; i < 3; ++i) graph->Run(step);
  EXPECT_THROW(graph->Run(step), std::exception);
  // The device can still be used.
  EXPECT_EQ(tensor.add(1).item<double>(), 2.0);
}

}  // namespace
}  // namespace paceline
