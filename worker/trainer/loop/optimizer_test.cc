// The expected values follow PyTorch's documentation, computed here in double, one number at a
// time. (tests/parity compares with PyTorch itself.)
#include "worker/trainer/loop/optimizer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace paceline {
namespace {

constexpr double kRates[] = {0.1, 0.2, 0.05, 0.1};
constexpr double kGradients[] = {0.5, -0.3, 0.25, 1.0};

// The parameter, starting at 1, after each of four steps.
std::vector<float> Train(const OptimizerConfig& config) {
  at::Tensor parameter = at::full({1}, 1.0).requires_grad_(true);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
  std::vector<float> values;
  for (int step = 0; step < 4; ++step) {
    parameter.mutable_grad() = at::full({1}, kGradients[step]);
    optimizer->Step(at::full({}, kRates[step], at::kDouble), {});
    EXPECT_FALSE(parameter.grad().defined());
    values.push_back(parameter.detach().item<float>());
  }
  return values;
}

std::vector<double> Sgd(double momentum, bool nesterov, double decay) {
  std::vector<double> values;
  double p = 1;
  double velocity = 0;
  for (int step = 0; step < 4; ++step) {
    const double g = kGradients[step] + decay * p;
    velocity = step == 0 ? g : momentum * velocity + g;
    p -= kRates[step] * (momentum == 0 ? g : nesterov ? g + momentum * velocity : velocity);
    values.push_back(p);
  }
  return values;
}

std::vector<double> AdamW(double beta1, double beta2, double epsilon, double decay) {
  std::vector<double> values;
  double p = 1;
  double mean = 0;
  double square = 0;
  for (int step = 0; step < 4; ++step) {
    const double g = kGradients[step];
    p *= 1 - kRates[step] * decay;
    mean = beta1 * mean + (1 - beta1) * g;
    square = beta2 * square + (1 - beta2) * g * g;
    const double mean_hat = mean / (1 - std::pow(beta1, step + 1));
    const double square_hat = square / (1 - std::pow(beta2, step + 1));
    p -= kRates[step] * mean_hat / (std::sqrt(square_hat) + epsilon);
    values.push_back(p);
  }
  return values;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
}

TEST(OptimizerTest, SgdFollowsItsRule) {
  OptimizerConfig config;
  ExpectNear(Train(config), Sgd(0, false, 0));
  config.weight_decay = 0.3;
  ExpectNear(Train(config), Sgd(0, false, 0.3));
  config.momentum = 0.9;
  ExpectNear(Train(config), Sgd(0.9, false, 0.3));
  config.nesterov = true;
  ExpectNear(Train(config), Sgd(0.9, true, 0.3));
}

TEST(OptimizerTest, AdamWFollowsItsRule) {
  OptimizerConfig config;
  config.kind = OptimizerConfig::Kind::kAdamW;
  ExpectNear(Train(config), AdamW(0.9, 0.999, 1e-8, 0));
  config.weight_decay = 0.3;
  config.beta1 = 0.7;
  config.beta2 = 0.9;
  config.epsilon = 1e-2;
  ExpectNear(Train(config), AdamW(0.7, 0.9, 1e-2, 0.3));
}

// A skipped step leaves no trace: later steps are as if it had not been.
TEST(OptimizerTest, SkippedStepChangesNothing) {
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    config.weight_decay = 0.1;
    at::Tensor plain = at::full({1}, 1.0).requires_grad_(true);
    at::Tensor skipping = at::full({1}, 1.0).requires_grad_(true);
    const std::unique_ptr<Optimizer> without = MakeOptimizer(config, {plain});
    const std::unique_ptr<Optimizer> with = MakeOptimizer(config, {skipping});
    for (int step = 0; step < 4; ++step) {
      skipping.mutable_grad() = at::full({1}, NAN);
      const at::Tensor rate = at::full({}, kRates[step], at::kDouble);
      with->Step(rate, at::full({}, 1.0));
      EXPECT_FALSE(skipping.grad().defined());
      for (const at::Tensor& one : {plain, skipping}) {
        one.mutable_grad() = at::full({1}, kGradients[step]);
      }
      without->Step(rate, {});
      with->Step(rate, at::full({}, 0.0));
      EXPECT_EQ(skipping.detach().item<float>(), plain.detach().item<float>());
    }
  }
}

TEST(OptimizerTest, StateHasOneTensorPerParameterAndMoment) {
  OptimizerConfig config;
  const at::Tensor parameter = at::full({3}, 1.0).requires_grad_(true);
  EXPECT_TRUE(MakeOptimizer(config, {parameter})->Slots().empty());
  config.momentum = 0.9;
  EXPECT_EQ(MakeOptimizer(config, {parameter})->Slots().size(), 1);
  config.kind = OptimizerConfig::Kind::kAdamW;
  EXPECT_EQ(MakeOptimizer(config, {parameter})->Slots().size(), 2);
}

TEST(OptimizerTest, UpdatesOtherTensorsWithTheSameState) {
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    const at::Tensor own = at::full({1}, 7.0).requires_grad_(true);
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {own});
    const at::Tensor other = at::full({1}, 1.0);
    const std::vector<float> expected = Train(config);
    for (int step = 0; step < 4; ++step) {
      optimizer->Update({other}, {at::full({1}, kGradients[step])},
                        at::full({}, kRates[step], at::kDouble), {});
      EXPECT_EQ(other.item<float>(), expected[static_cast<size_t>(step)]);
    }
    EXPECT_EQ(own.detach().item<float>(), 7);
  }
}

TEST(OptimizerTest, AfterAResetItBeginsAnew) {
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    const at::Tensor parameter = at::full({1}, 1.0).requires_grad_(true);
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
    const at::Tensor nan = at::full({1}, std::numeric_limits<double>::quiet_NaN());
    optimizer->Update({at::full({1}, 1.0)}, {nan}, at::full({}, 0.1, at::kDouble), {});
    optimizer->Reset();
    const at::Tensor other = at::full({1}, 1.0);
    optimizer->Update({other}, {at::full({1}, kGradients[0])}, at::full({}, kRates[0], at::kDouble),
                      {});
    EXPECT_EQ(other.item<float>(), Train(config).front());
  }
}

// A count in bf16 would stop at 256 and spoil the correction of the moments.
TEST(OptimizerTest, EachTypeIsUpdatedAndCountedAsIfItWereAlone) {
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    std::vector<at::Tensor> parameters;
    for (const auto type : {at::kBFloat16, at::kFloat, at::kBFloat16, at::kDouble}) {
      parameters.push_back(at::full({3}, 1.0, type).requires_grad_(true));
    }
    std::vector<at::Tensor> alone;
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    for (const at::Tensor& parameter : parameters) {
      alone.push_back(parameter.detach().clone().requires_grad_(true));
      optimizers.push_back(MakeOptimizer(config, {alone.back()}));
    }
    const std::unique_ptr<Optimizer> together = MakeOptimizer(config, parameters);
    const at::Tensor rate = at::full({}, 1e-3, at::kDouble);
    for (int step = 0; step < 300; ++step) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        parameters[i].mutable_grad() = at::full_like(parameters[i], kGradients[step % 4]);
        alone[i].mutable_grad() = parameters[i].grad().clone();
        optimizers[i]->Step(rate, {});
      }
      together->Step(rate, {});
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters[i], alone[i])) << i;
    }
    for (const at::Tensor& count : together->StepCounts()) {
      EXPECT_EQ(count.scalar_type(), at::kFloat);
      EXPECT_EQ(count.item<float>(), 300);
    }
  }
}

// The same as in torch.optim.
TEST(OptimizerTest, WhatHasNoGradientStaysWithItsState) {
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    config.weight_decay = 0.1;
    const at::Tensor seldom = at::full({1}, 1.0).requires_grad_(true);
    const at::Tensor always = at::full({1}, 1.0).requires_grad_(true);
    const at::Tensor alone = at::full({1}, 1.0).requires_grad_(true);
    const std::unique_ptr<Optimizer> both = MakeOptimizer(config, {seldom, always});
    const std::unique_ptr<Optimizer> one = MakeOptimizer(config, {alone});
    for (int step = 0; step < 4; ++step) {
      const at::Tensor rate = at::full({}, kRates[step], at::kDouble);
      always.mutable_grad() = at::full({1}, kGradients[step]);
      if (step % 2 == 0) {
        for (const at::Tensor& parameter : {seldom, alone}) {
          parameter.mutable_grad() = at::full({1}, kGradients[step]);
        }
        one->Step(rate, {});
      }
      both->Step(rate, {});
    }
    EXPECT_EQ(seldom.detach().item<float>(), alone.detach().item<float>());
    EXPECT_NE(seldom.detach().item<float>(), always.detach().item<float>());
  }
}

}  // namespace
}  // namespace paceline
