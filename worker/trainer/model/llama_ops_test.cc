#include "worker/trainer/model/llama_ops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "worker/trainer/model/testing/memory_count.h"

namespace paceline {
namespace {

using Inputs = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Inputs&)>;

// Returns result and gradients of `op` for a fixed gradient of its result.
Inputs Evaluate(const Op& op, const Inputs& inputs) {
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
  const Inputs actual = Evaluate(op, inputs);
  const Inputs expected = Evaluate(formula, wide);
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
  const auto op = [](const Inputs& in) { return RmsNorm(in[0], in[1], 1e-5, at::kFloat); };
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
  const at::Tensor weight = at::rand({8, 3}).select(1, 1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    EXPECT_TRUE(RmsNorm(x, weight, 1e-5, type)
                    .equal(RmsNorm(x.contiguous(), weight.contiguous(), 1e-5, type)));
  }
}

// `rounded` is bfloat16, and nearest to `exact` but for the error of floats.
void ExpectRoundedOnce(const at::Tensor& rounded, const at::Tensor& exact) {
  ASSERT_EQ(rounded.scalar_type(), at::kBFloat16);
  ASSERT_EQ(rounded.sizes(), exact.sizes());
  const at::Tensor bound = exact.abs().mul(1.0 / 256).add(2e-6);
  EXPECT_TRUE(rounded.to(at::kDouble).sub(exact).abs().le(bound).all().item<bool>());
}

TEST(LlamaOpsTest, RmsNormInBfloat16IsRoundedOnce) {
  const auto formula = [](const Inputs& in) {
    return in[0].mul(in[0].square().mean(-1, true).add(1e-5).rsqrt()).mul(in[1]);
  };
  // Its gradient is rounded as that of the operation is.
  const auto cast = [&](const Inputs& in) { return formula(in).to(at::kBFloat16); };
  const auto op = [](const Inputs& in) { return RmsNorm(in[0], in[1], 1e-5, at::kBFloat16); };
  for (const int64_t dim : {31, 64, 100}) {
    at::manual_seed(dim);
    const Inputs inputs = {at::randn({2, 75, dim}), at::rand({dim})};
    const Inputs wide = {inputs[0].to(at::kDouble), inputs[1].to(at::kDouble)};
    const Inputs actual = Evaluate(op, inputs);
    const Inputs expected = Evaluate(cast, wide);
    ExpectRoundedOnce(actual[0], formula(wide));
    for (size_t i = 1; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].scalar_type(), at::kFloat);
      const double error = actual[i].to(at::kDouble).sub(expected[i]).abs().max().item<double>();
      EXPECT_LE(error, 1e-5 * (1 + expected[i].abs().max().item<double>())) << "output " << i;
    }
  }
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

TEST(LlamaOpsTest, GatesFarBelowZeroAreClosed) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const double gate : {-88.0, -88.5, -100.0, -1e10, -1e37}) {
      SCOPED_TRACE(testing::Message() << gate << " " << type);
      const auto op = [](const Inputs& in) { return SwiGlu(in[0], in[1]); };
      const Inputs inputs = {at::full({40}, gate).to(type), at::full({40}, 1.0).to(type)};
      for (const at::Tensor& output : Evaluate(op, inputs)) {
        EXPECT_LT(output.abs().max().item<float>(), 1e-35);
      }
    }
  }
}

TEST(LlamaOpsTest, WhatIsNotFiniteIsNotHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor one = at::full({40}, 1.F);
  const at::Tensor nan = at::full({40}, std::numeric_limits<float>::quiet_NaN());
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const auto swiglu = [&](const at::Tensor& gate, const at::Tensor& up) {
      return SwiGlu(gate.to(type), up.to(type));
    };
    EXPECT_TRUE(at::isnan(swiglu(nan, one)).all().item<bool>());
    EXPECT_TRUE(at::isnan(swiglu(one, nan)).all().item<bool>());
    EXPECT_FALSE(std::isfinite(swiglu(at::full({40}, infinity), one).sum().item<float>()));
    EXPECT_TRUE(at::isnan(RmsNorm(nan.view({1, 40}), one, 1e-5, type)).all().item<bool>());
    const RotaryTable table = MakeRotaryTable(1, 40, 1e4, at::kCPU);
    EXPECT_TRUE(at::isnan(Rotate(nan.view({1, 1, 1, 40}).to(type), table)).all().item<bool>());
  }
}

TEST(LlamaOpsTest, SwiGluInBfloat16IsRoundedOnce) {
  at::manual_seed(4);
  const auto formula = [](const Inputs& in) { return at::silu(in[0]).mul(in[1]); };
  const auto cast = [&](const Inputs& in) { return formula(in).to(at::kBFloat16); };
  const auto op = [](const Inputs& in) { return SwiGlu(in[0], in[1]); };
  const Inputs inputs = {at::randn({3, 333}).mul(4).to(at::kBFloat16),
                         at::randn({3, 333}).to(at::kBFloat16)};
  const Inputs wide = {inputs[0].to(at::kDouble), inputs[1].to(at::kDouble)};
  const Inputs actual = Evaluate(op, inputs);
  const Inputs expected = Evaluate(cast, wide);
  ExpectRoundedOnce(actual[0], formula(wide));
  ExpectRoundedOnce(actual[1], expected[1]);
  ExpectRoundedOnce(actual[2], expected[2]);
}

// For the backward pass it keeps its inputs, and nothing that it has computed.
TEST(LlamaOpsTest, SwiGluAllocatesItsResultAlone) {
  constexpr int64_t kWidth = 1000;
  const auto leaf = [] { return at::randn({kWidth}).to(at::kBFloat16).requires_grad_(true); };
  const at::Tensor gate = leaf();
  const at::Tensor up = leaf();
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  const at::Tensor y = SwiGlu(gate, up);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_LT(count->peak, 3 * kWidth);  // Bytes, of which the result has two for each element.
}

TEST(LlamaOpsTest, RotationInBfloat16IsRoundedOnce) {
  for (const int64_t dim : {2, 6, 32}) {
    at::manual_seed(dim);
    const RotaryTable table = MakeRotaryTable(7, dim, 1e4, at::kCPU);
    const RotaryTable wide = {table.cos.to(at::kDouble), table.sin.to(at::kDouble)};
    const at::Tensor x = at::randn({3, 7, 2, dim}).to(at::kBFloat16);
    const auto op = [&](const Inputs& in) { return Rotate(in[0], table); };
    const auto cast = [&](const Inputs& in) { return Rotate(in[0], wide).to(at::kBFloat16); };
    const Inputs actual = Evaluate(op, {x});
    ExpectRoundedOnce(actual[0], Rotate(x.to(at::kDouble), wide));
    ExpectRoundedOnce(actual[1], Evaluate(cast, {x.to(at::kDouble)})[1]);
  }
}

// GPUs use them too.
TEST(LlamaOpsTest, TorchsOperationsGiveTheSame) {
  at::manual_seed(2);
  const RotaryTable table = MakeRotaryTable(4, 8, 1e4, at::kCPU);
  const RotaryTable wide = {table.cos.to(at::kDouble), table.sin.to(at::kDouble)};
  const at::Tensor x = at::randn({2, 4, 3, 8});
  const at::Tensor weight = at::rand({8});
  ExpectEqual([&](const Inputs& in) { return Rotate(in[0], table); },
              [&](const Inputs& in) { return Rotate(in[0], wide); }, {x});
  const auto swiglu = [](const Inputs& in) { return SwiGlu(in[0], in[1]); };
  ExpectEqual(swiglu, swiglu, {x, x.neg()});
  const at::Tensor rounded = x.to(at::kBFloat16);  // For which there is no loop.
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 5e-6 : 1e-2;
    EXPECT_TRUE(at::allclose(RmsNorm(rounded.to(at::kFloat), weight, 1e-5, type),
                             RmsNorm(rounded, weight, 1e-5, type), tolerance, tolerance));
  }
}

// Else the loops would read beyond the end, or other types' bits.
TEST(LlamaOpsTest, ShapesAndTypesThatDoNotFitAreErrors) {
  const RotaryTable table = MakeRotaryTable(4, 8, 1e4, at::kCPU);
  const RotaryTable wide = {table.cos.to(at::kDouble), table.sin.to(at::kDouble)};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    const auto randn = [type](at::IntArrayRef sizes) { return at::randn(sizes).to(type); };
    EXPECT_THROW(Rotate(randn({1, 5, 2, 8}), table), c10::Error);
    EXPECT_THROW(Rotate(randn({1, 4, 2, 6}), table), c10::Error);
    EXPECT_THROW(Rotate(randn({1, 4, 2, 8}), wide), c10::Error);
    EXPECT_THROW(SwiGlu(randn({3, 40}), randn({3, 39})), c10::Error);
    EXPECT_THROW(RmsNorm(at::randn({3, 40}), at::rand({39}), 1e-5, type), c10::Error);
  }
}

// Rows enough for several threads, the last of which has fewer.
TEST(LlamaOpsTest, TheNumberOfThreadsChangesNoBit) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(type);
    at::manual_seed(5);
    const Inputs inputs = {at::randn({1, 1003, 96}), at::rand({96})};
    const RotaryTable table = MakeRotaryTable(1003, 8, 1e4, at::kCPU);
    const auto op = [&](const Inputs& in) {
      const at::Tensor y = RmsNorm(in[0], in[1], 1e-5, type);
      return Rotate(y.view({1, 1003, 12, 8}), table);
    };
    // Its threads begin in the middle of a vector.
    const auto swiglu = [](const Inputs& in) { return SwiGlu(in[0], in[1]); };
    const Inputs gates = {at::randn({100'003}).to(type), at::randn({100'003}).to(type)};
    const auto all = [&](int count) {
      at::set_num_threads(count);
      Inputs outputs = Evaluate(op, inputs);
      for (const at::Tensor& output : Evaluate(swiglu, gates)) outputs.push_back(output);
      return outputs;
    };
    const Inputs one = all(1);
    const Inputs three = all(3);
    at::set_num_threads(threads);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(three[i].equal(one[i])) << "output " << i;
  }
}

}  // namespace
}  // namespace paceline
