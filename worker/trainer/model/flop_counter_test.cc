#include "worker/trainer/model/flop_counter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

Flops FlopsOf(const std::function<void()>& work) {
  FlopCounter counter;
  work();
  EXPECT_EQ(counter.unknown(), "");
  return counter.flops();
}

// Of a forward pass and the backward pass of its sum.
Flops FlopsOfPasses(const std::function<at::Tensor()>& forward) {
  FlopCounter counter;
  counter.BeginForward();
  const at::Tensor sum = forward().sum();
  counter.BeginBackward();
  sum.backward();
  EXPECT_EQ(counter.unknown(), "");
  return counter.flops();
}

TEST(FlopCounterTest, ProductsOfMatrices) {
  const at::Tensor a = at::ones({2, 3});
  const at::Tensor b = at::ones({3, 5});
  EXPECT_EQ(FlopsOf([&] { at::mm(a, b); }).matrices, 2 * 2 * 3 * 5);
  EXPECT_EQ(FlopsOf([&] { at::addmm(at::ones({5}), a, b); }).matrices, 2 * 2 * 3 * 5);
  const at::Tensor batch = at::ones({7, 2, 3});
  const at::Tensor other = at::ones({7, 3, 5});
  EXPECT_EQ(FlopsOf([&] { at::bmm(batch, other); }).matrices, 7 * 2 * 2 * 3 * 5);
  EXPECT_EQ(FlopsOf([&] {
              at::baddbmm(at::ones({2, 5}), batch, other);
            }).matrices,
            7 * 2 * 2 * 3 * 5);
  // Made of others, which count once.
  EXPECT_EQ(FlopsOf([&] { at::linear(batch, b.t(), at::ones({5})); }).matrices, 7 * 2 * 2 * 3 * 5);
  EXPECT_EQ(FlopsOf([&] { batch.matmul(b); }).matrices, 7 * 2 * 2 * 3 * 5);
  EXPECT_EQ(FlopsOf([&] { a.add(a).relu().sum(); }).total(), 0);
}

TEST(FlopCounterTest, ProductsThatTorchsCounterLeavesOut) {
  const at::Tensor a = at::ones({2, 3});
  const at::Tensor b = at::ones({3, 5});
  EXPECT_EQ(FlopsOf([&] { at::zeros({2, 5}).addmm_(a, b); }).matrices, 2 * 2 * 3 * 5);
  const at::Tensor batch = at::ones({7, 2, 3});
  const at::Tensor other = at::ones({7, 3, 5});
  EXPECT_EQ(FlopsOf([&] {
              at::zeros({7, 2, 5}).baddbmm_(batch, other);
            }).matrices,
            7 * 2 * 2 * 3 * 5);
  EXPECT_EQ(FlopsOf([&] { at::zeros({2, 5}).addbmm_(batch, other); }).matrices, 7 * 2 * 2 * 3 * 5);
}

// Counting goes on behind them, and says that it lacks them.
TEST(FlopCounterTest, WhatShapesDoNotSayIsNamed) {
  const at::Tensor a = at::ones({4, 4});
  FlopCounter counter;
  at::eye(4).to_sparse().matmul(a);
  EXPECT_NE(counter.unknown(), "");
  EXPECT_EQ(counter.flops().total(), 0);
  at::mm(a, a);
  EXPECT_EQ(counter.flops().total(), 128);
}

TEST(FlopCounterTest, ABackwardPassCostsAForwardPassForEachGradient) {
  const double once = 2 * 2 * 3 * 5;
  const at::Tensor a = at::ones({2, 3});
  const at::Tensor b = at::ones({3, 5}).requires_grad_(true);
  EXPECT_EQ(FlopsOfPasses([&] { return at::mm(a, b); }).matrices, 2 * once);
  const at::Tensor c = at::ones({2, 3}).requires_grad_(true);
  EXPECT_EQ(FlopsOfPasses([&] { return at::mm(c, b); }).matrices, 3 * once);
}

// Each place of the output (transposed: of the input) takes one multiplication per weight that
// leads to it, by brute force over what torch makes.
TEST(FlopCounterTest, ConvolutionsOfAllKinds) {
  for (const bool transposed : {false, true}) {
    for (const int64_t groups : {1, 2, 4}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t dilation : {1, 2}) {
          SCOPED_TRACE(testing::Message() << transposed << groups << stride << dilation);
          const at::Tensor input = at::randn({3, 4, 9, 11}).requires_grad_(true);
          const at::Tensor weight =
              (transposed ? at::randn({4, 8 / groups, 3, 2}) : at::randn({8, 4 / groups, 3, 2}))
                  .requires_grad_(true);
          at::Tensor output;
          const Flops flops = FlopsOfPasses([&] {
            output = at::convolution(input, weight, {}, {stride, 1}, {1, 0}, {dilation, 1},
                                     transposed, {0, 0}, groups);
            return output;
          });
          const double applied = static_cast<double>((transposed ? input : output).numel()) *
                                 static_cast<double>(weight[0].numel());
          EXPECT_EQ(flops.convolutions, 3 * 2 * applied);
          EXPECT_EQ(flops.matrices, 0) << "what it is made of does not count again";
        }
      }
    }
  }
}

TEST(FlopCounterTest, AttentionCountsItsProductsAndNotWhatItComputesAgain) {
  const at::Tensor query = at::randn({2, 3, 16, 8}).requires_grad_(true);
  const at::Tensor key = at::randn({2, 3, 24, 8}).requires_grad_(true);
  const at::Tensor value = at::randn({2, 3, 24, 8}).requires_grad_(true);
  const Flops flops =
      FlopsOfPasses([&] { return at::scaled_dot_product_attention(query, key, value); });
  EXPECT_EQ(flops.matrices, 3 * 2 * 2 * (2 * 3 * 16 * 24 * 8));
}

TEST(FlopCounterTest, WhatABackwardPassComputesAgainDoesNotCount) {
  const at::Tensor a = at::ones({4, 4});
  FlopCounter counter;
  counter.BeginBackward();
  at::mm(a, a);
  EXPECT_EQ(counter.flops().total(), 0) << "with gradients enabled";
  {
    const at::NoGradGuard no_grad;
    at::mm(a, a);
  }
  EXPECT_EQ(counter.flops().total(), 128);
  counter.BeginForward();
  at::mm(a, a);
  EXPECT_EQ(counter.flops().total(), 256);
}

TEST(FlopCounterTest, FormatsAreApart) {
  const at::Tensor a = at::ones({4, 4});
  const at::Tensor half = a.to(at::kBFloat16);
  EXPECT_EQ(FlopsOf([&] { at::mm(half, half); }).half, 128);
  EXPECT_EQ(FlopsOf([&] { at::mm(half, half); }).total(), 128);
  EXPECT_EQ(FlopsOf([&] { at::mm(a.to(at::kDouble), a.to(at::kDouble)); }).other, 128);
  const Autocast autocast(true, at::kCPU);
  EXPECT_EQ(FlopsOf([&] { at::linear(a, a); }).half, 128);
}

TEST(FlopCounterTest, OtherThreadsAndOtherTimesDoNotCount) {
  const at::Tensor a = at::ones({4, 4});
  EXPECT_EQ(FlopsOf([&] { std::thread([&] { at::mm(a, a); }).join(); }).total(), 0);
  at::mm(a, a);
  EXPECT_EQ(FlopsOf([&] {
              at::mm(a, a);
              FlopCounter second;
              at::mm(a, a);
              EXPECT_EQ(second.flops().total(), 0);
            }).total(),
            256);
}

// The formula counts a gradient of the images, too, which nobody needs.
TEST(FlopCounterTest, BuiltInModelsCostWhatTheirFormulaSays) {
  Batch batch;
  batch.inputs = at::randn({5, 3, 32, 32});
  batch.targets = at::zeros({5}, at::kLong);
  batch.samples = 5;
  const auto count = [&](Model& model) {
    FlopCounter counter;
    const at::Tensor loss = model.Loss(batch);
    counter.BeginBackward();
    loss.backward();
    EXPECT_EQ(counter.unknown(), "");
    return counter.flops() * (1.0 / 5);
  };
  const std::unique_ptr<Classifier> mlp = MakeMlp({3, 32, 32, 7}, {16, 8}, at::kCPU);
  EXPECT_DOUBLE_EQ(count(*mlp).total(), mlp->FlopsPerSample().total() - 2 * 3 * 32 * 32 * 16);
  const std::unique_ptr<Classifier> resnet = MakeResNet18({3, 32, 32, 7}, false, at::kCPU);
  const Flops flops = count(*resnet);
  EXPECT_DOUBLE_EQ(flops.total(), resnet->FlopsPerSample().total() - 2 * 64 * 3 * 7 * 7 * 16 * 16);
  EXPECT_DOUBLE_EQ(flops.matrices, 3 * 2 * 512 * 7) << "the head";
}

// Operators of a script leave their results on the interpreter's stack, below the inputs of the
// next one.
TEST(FlopCounterTest, ScriptsCostTheirOperators) {
  torch::jit::Module module("User");
  module.register_parameter("wide", at::ones({4, 6}).requires_grad_(true), false);
  module.register_parameter("narrow", at::ones({10, 6}).requires_grad_(true), false);
  module.define(R"(
def forward(self, a, b):
    return (a.mm(self.wide) + b.mm(self.narrow)).sum()
)");
  const at::Tensor a = at::ones({3, 4});
  const at::Tensor b = at::ones({3, 10});
  const double once = 2 * 3 * 6 * (4 + 10);
  EXPECT_EQ(FlopsOfPasses([&] { return module.forward({a, b}).toTensor(); }).matrices, 2 * once);
  const at::NoGradGuard no_grad;
  for (int run = 0; run < 4; ++run) {  // The interpreter changes the script after some runs.
    EXPECT_EQ(FlopsOf([&] { module.forward({a, b}); }).matrices, once) << run;
  }
}

}  // namespace
}  // namespace paceline
