#include "worker/trainer/model/llama_ops.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace paceline {
namespace {

using Inputs = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Inputs&)>;

// Returns result and gradients of `op` for a fixed gradient of its result.
Inputs Run(const Op& op, const Inputs& inputs) {
  Inputs leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(true));
  }
  const at::Tensor y = op(leaves);
  at::manual_seed(99);
  torch::autograd::backward({y}, {at::randn(y.sizes()).to(y.scalar_type())});
  Inputs all = {y.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// Compares the float kernel with the double formula, relative to the largest element.
void ExpectEqual(const Op& op, const Op& formula, const Inputs& inputs, double tolerance = 2e-6) {
  Inputs wide;
  for (const at::Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
  const Inputs actual = Run(op, inputs);
  const Inputs expected = Run(formula, wide);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].sizes(), expected[i].sizes());
    const double error = actual[i].to(at::kDouble).sub(expected[i]).abs().max().item<double>();
    EXPECT_LE(error, tolerance * expected[i].abs().max().item<double>()) << "output " << i;
  }
}

TEST(LlamaOpsTest, RmsNormAndItsGradients) {
  const auto formula = [](const Inputs& in) {
    return in[0].mul(in[0].square().mean(-1, true).add(1e-5).rsqrt()).mul(in[1]);
  };
  const auto op = [](const Inputs& in) { return RmsNorm(in[0], in[1], 1e-5); };
  // Widths and numbers of rows that do and do not divide evenly.
  for (const int64_t dim : {31, 64, 100}) {
    for (const int64_t rows : {1, 64, 150}) {
      at::manual_seed(dim);
      ExpectEqual(op, formula, {at::randn({2, rows, dim}), at::rand({dim})}, 1e-5);
    }
  }
}

TEST(LlamaOpsTest, RmsNormOfRowsThatAreNotContiguous) {
  const at::Tensor x = at::randn({8, 5}).t();
  const at::Tensor weight = at::rand({8});
  EXPECT_TRUE(RmsNorm(x, weight, 1e-5).equal(RmsNorm(x.contiguous(), weight, 1e-5)));
}

TEST(LlamaOpsTest, RotateTurnsPairsOfHalves) {
  for (const int64_t dim : {2, 6, 32}) {
    at::manual_seed(dim);
    const RotaryTable table = MakeRotaryTable(7, dim, 1e4, at::kCPU);
    const auto formula = [&](const Inputs& in) {
      const at::Tensor cos = at::cat({table.cos, table.cos}, 1).unsqueeze(1).to(at::kDouble);
      const at::Tensor sin = at::cat({table.sin, table.sin}, 1).unsqueeze(1).to(at::kDouble);
      const std::vector<at::Tensor> half = in[0].chunk(2, -1);
      return in[0].mul(cos).add(at::cat({half[1].neg(), half[0]}, -1).mul(sin));
    };
    const auto op = [&](const Inputs& in) { return Rotate(in[0], table); };
    ExpectEqual(op, formula, {at::randn({3, 7, 2, dim})});
  }
}

TEST(LlamaOpsTest, AnglesFallWithTheIndexAndGrowWithThePosition) {
  const RotaryTable table = MakeRotaryTable(5, 4, 100, at::kCPU);
  EXPECT_NEAR(table.sin[3][0].item<double>(), std::sin(3.0), 1e-6);
  EXPECT_NEAR(table.cos[3][1].item<double>(), std::cos(3.0 / 10), 1e-6);
}

TEST(LlamaOpsTest, SwiGluAndItsGradients) {
  at::manual_seed(1);
  const auto formula = [](const Inputs& in) { return at::silu(in[0]).mul(in[1]); };
  const auto op = [](const Inputs& in) { return SwiGlu(in[0], in[1]); };
  ExpectEqual(op, formula, {at::randn({3, 333}).mul(4), at::randn({3, 333})});
  // One at a time, so that small results are checked exactly, too.
  for (const float gate : {-80.F, -20.F, -1e-4F, 0.F, 1e-30F, 3.F, 100.F, 1e9F}) {
    ExpectEqual(op, formula, {at::full({40}, gate), at::full({40}, 0.7F)});
  }
}

TEST(LlamaOpsTest, WhatIsNotFiniteIsNotHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor one = at::full({40}, 1.F);
  const at::Tensor nan = at::full({40}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(at::isnan(SwiGlu(nan, one)).all().item<bool>());
  EXPECT_TRUE(at::isnan(SwiGlu(one, nan)).all().item<bool>());
  EXPECT_FALSE(std::isfinite(SwiGlu(at::full({40}, infinity), one).sum().item<float>()));
  EXPECT_TRUE(at::isnan(RmsNorm(nan.view({1, 40}), one, 1e-5)).all().item<bool>());
}

// GPUs and bfloat16 do not use the kernels.
TEST(LlamaOpsTest, OtherTypesGiveTheSame) {
  at::manual_seed(2);
  const RotaryTable table = MakeRotaryTable(4, 8, 1e4, at::kCPU);
  const at::Tensor x = at::randn({2, 4, 3, 8});
  const auto rotate = [&](const Inputs& in) { return Rotate(in[0], table); };
  ExpectEqual(rotate, rotate, {x});
  const at::Tensor rounded = x.to(at::kBFloat16);
  EXPECT_TRUE(at::allclose(Rotate(rounded, table).to(at::kFloat),
                           Rotate(rounded.to(at::kFloat), table), 1e-2, 1e-2));
  EXPECT_TRUE(at::allclose(SwiGlu(rounded, rounded).to(at::kFloat),
                           SwiGlu(rounded.to(at::kFloat), rounded.to(at::kFloat)), 1e-2, 1e-2));
}

}  // namespace
}  // namespace paceline
