// The kernels of a Llama's loops give what the CPU's loops give, and their times beside torch's
// operations.
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

#include "tests/gpu/gpu_test.h"
#include "worker/trainer/model/chunked_cross_entropy.h"
#include "worker/trainer/model/cpu_llama_kernels.h"
#include "worker/trainer/model/llama_ops.h"

namespace paceline {
namespace {

using Tensors = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Tensors&, const LlamaKernels*)>;

at::Tensor Norm(const Tensors& in, at::ScalarType type, const LlamaKernels* kernels) {
  return RmsNorm(in[0], in[1], 1e-5, type, kernels);
}

at::Tensor Turn(const Tensors& in, const LlamaKernels* kernels) {
  const RotaryTable table = MakeRotaryTable(in[0].size(1) + 3, in[0].size(3), 1e4, in[0].device());
  return Rotate(in[0], table, kernels);
}

at::Tensor Gate(const Tensors& in, const LlamaKernels* kernels) {
  return SwiGlu(in[0], in[1], kernels);
}

// Result and gradients of `op` for a fixed gradient of its result.
Tensors Run(const Op& op, const Tensors& inputs, c10::Device device, const LlamaKernels* kernels) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.to(device).detach().clone().requires_grad_(true));
  }
  const at::Tensor y = op(leaves, kernels);
  at::manual_seed(9);
  const at::Tensor gradient = at::randn(y.sizes()).to(y.scalar_type()).to(device);
  torch::autograd::backward({y}, {gradient});
  Tensors all = {y.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  for (at::Tensor& one : all) one = one.cpu();
  return all;
}

class LlamaKernelsTest : public GpuTest {
 protected:
  const LlamaKernels* kernels() const { return platform_.llama_kernels(); }

  // Relative to the largest element: the error of floats, or the other side of a tie.
  void ExpectAsOnTheCpu(const Op& op, const Tensors& inputs) {
    const Tensors expected = Run(op, inputs, c10::kCPU, &CpuLlamaKernels());
    const Tensors actual = Run(op, inputs, device_, kernels());
    const Tensors again = Run(op, inputs, device_, kernels());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].sizes(), expected[i].sizes());
      ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type());
      EXPECT_TRUE(again[i].equal(actual[i])) << "other bits in a second run of output " << i;
      const double tolerance = actual[i].scalar_type() == at::kFloat ? 1e-5 : 1.0 / 128;
      const at::Tensor wide = expected[i].to(at::kDouble);
      const double error = actual[i].to(at::kDouble).sub(wide).abs().max().item<double>();
      EXPECT_LE(error, tolerance * wide.abs().max().item<double>()) << "output " << i;
    }
  }

  // Milliseconds of forward and backward pass, of many.
  double Time(const Op& op, const Tensors& inputs, const LlamaKernels* by) {
    constexpr int kPasses = 20;
    Tensors leaves;
    for (const at::Tensor& input : inputs) {
      leaves.push_back(input.detach().clone().requires_grad_(true));
    }
    const at::Tensor gradient = op(leaves, by).detach();
    c10::cuda::CUDAEvent begin(cudaEventDefault);
    c10::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    for (int pass = 0; pass < kPasses; ++pass) {
      for (at::Tensor& leaf : leaves) leaf.mutable_grad().reset();
      torch::autograd::backward({op(leaves, by)}, {gradient});
    }
    end.record();
    end.synchronize();
    return begin.elapsed_time(end) / kPasses;
  }

  void ShowTimes(const char* what, const Op& op, const Tensors& inputs) {
    const double torchs = Time(op, inputs, nullptr);
    const double ours = Time(op, inputs, kernels());
    std::cout << what << ": " << ours << " ms, torch's operations " << torchs << " ms\n";
  }
};

TEST_F(LlamaKernelsTest, RmsNorm) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto op = [type](const Tensors& in, const LlamaKernels* by) {
      return Norm(in, type, by);
    };
    for (const int64_t dim : {2, 31, 256, 257, 768, 5003}) {
      for (const int64_t rows : {1, 3, 4, 5, 130}) {
        SCOPED_TRACE(testing::Message() << rows << " rows of " << dim << " " << type);
        at::manual_seed(dim);
        ExpectAsOnTheCpu(op, {at::randn({rows, dim}), at::rand({dim}).add(0.5)});
      }
    }
  }
}

TEST_F(LlamaKernelsTest, Rotate) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t head_dim : {2, 6, 64, 128}) {
      for (const int64_t heads : {1, 5, 12}) {
        SCOPED_TRACE(testing::Message() << heads << " heads of " << head_dim << " " << type);
        ExpectAsOnTheCpu(Turn, {at::randn({3, 17, heads, head_dim}).to(type)});
      }
    }
  }
}

TEST_F(LlamaKernelsTest, SwiGlu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t size : {1, 255, 1024, 1025, 100'003}) {
      SCOPED_TRACE(testing::Message() << size << " " << type);
      ExpectAsOnTheCpu(Gate, {at::randn({size}).mul(4).to(type), at::randn({size}).to(type)});
    }
  }
}

TEST_F(LlamaKernelsTest, CrossEntropyInChunks) {
  const at::Tensor targets = at::randint(0, 1003, {37}, at::kLong);
  targets.narrow(0, 5, 3).fill_(-100);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto op = [&](const Tensors& in, const LlamaKernels* by) {
      return ChunkedCrossEntropy(in[0], in[1], targets.to(in[0].device()), 7, type, by);
    };
    // Small products, so that those in bfloat16 are near each other on both devices.
    const Tensors inputs = {at::randn({37, 16}), at::randn({1003, 16}).mul(0.1)};
    const Tensors expected = Run(op, inputs, c10::kCPU, &CpuLlamaKernels());
    const Tensors actual = Run(op, inputs, device_, kernels());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double tolerance = type == at::kFloat ? 1e-4 : 2e-2;
      const double error = actual[i].sub(expected[i]).abs().max().item<double>();
      EXPECT_LE(error, tolerance * expected[i].abs().max().item<double>()) << "output " << i;
    }
  }
}

TEST_F(LlamaKernelsTest, CrossEntropyOfRows) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t classes : {1, 2, 255, 256, 1025, 50'257}) {
      for (const double size : {1e-3, 1.0, 30.0, 1e4}) {
        SCOPED_TRACE(testing::Message() << classes << " classes of size " << size << " " << type);
        const at::Tensor logits = at::randn({19, classes}).mul(size).to(type);
        const at::Tensor there = logits.to(device_);
        const at::Tensor targets = at::randint(0, classes, {19}, at::kLong);
        const at::Tensor shares = at::randn({19});
        const at::Tensor expected = CpuLlamaKernels().CrossEntropy(logits, targets, shares);
        const at::Tensor actual =
            kernels()->CrossEntropy(there, targets.to(device_), shares.to(device_));
        EXPECT_TRUE(actual.cpu().allclose(expected, 1e-5, 1e-5));
        const double rounding = type == at::kFloat ? 1e-5 : 1.0 / 128;
        EXPECT_TRUE(there.cpu().to(at::kFloat).allclose(logits.to(at::kFloat), rounding, 2e-5));
      }
    }
  }
}

TEST_F(LlamaKernelsTest, ARowThatIsNotFiniteIsNanAndNoOther) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor logits = at::randn({4, 1000}).to(type);
    logits[0][700].fill_(std::nan(""));
    logits[1][700].fill_(kInfinity);
    logits[2].fill_(-kInfinity);
    logits[3][700].fill_(-kInfinity);
    const at::Tensor there = logits.to(device_);
    const at::Tensor losses = kernels()->CrossEntropy(
        there, at::full({4}, 20, at::kLong).to(device_), at::full({4}, 0.25).to(device_));
    EXPECT_TRUE(losses.narrow(0, 0, 3).isnan().all().item<bool>());
    EXPECT_TRUE(there.narrow(0, 0, 3).isnan().all().item<bool>());
    EXPECT_TRUE(losses[3].isfinite().item<bool>());
    EXPECT_TRUE(there[3].isfinite().all().item<bool>());
  }
}

// As Slipstream's rounds and recorded steps need it.
TEST_F(LlamaKernelsTest, WorkGoesToTheCurrentStream) {
  const at::Tensor gate = at::randn({1 << 20}).to(device_);
  Synchronize();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  at::Tensor y;
  {
    const c10::cuda::CUDAStreamGuard aside(side);
    y = SwiGlu(gate, gate, kernels());
    side.synchronize();
  }
  EXPECT_TRUE(y.allclose(SwiGlu(gate, gate, nullptr), 1e-5, 1e-6));
}

TEST_F(LlamaKernelsTest, TimesOfABlockOf160m) {
  constexpr int64_t kTokens = 32 * 1024;
  const auto options = at::TensorOptions().device(device_);
  const at::Tensor x = at::randn({kTokens, 768}, options);
  ShowTimes("RMS norm to bfloat16, 32768 x 768",
            [](const Tensors& in, const LlamaKernels* by) { return Norm(in, at::kBFloat16, by); },
            {x, at::rand({768}, options)});
  const RotaryTable table = MakeRotaryTable(1024, 64, 1e4, device_);
  const auto rotate = [&](const Tensors& in, const LlamaKernels* by) {
    return Rotate(in[0], table, by);
  };
  ShowTimes("rotation of bfloat16, 32 x 1024 x 12 x 64", rotate,
            {x.view({32, 1024, 12, 64}).to(at::kBFloat16)});
  const at::Tensor wide = at::randn({kTokens, 2048}, options).to(at::kBFloat16);
  ShowTimes("SwiGLU of bfloat16, 32768 x 2048", Gate, {wide, wide});
  const at::Tensor targets = at::randint(0, 50304, {kTokens / 8}, options.dtype(at::kLong));
  const auto loss = [&](const Tensors& in, const LlamaKernels* by) {
    return ChunkedCrossEntropy(in[0], in[1], targets, 1334, at::kBFloat16, by);
  };
  ShowTimes("output projection and loss, 4096 x 50304", loss,
            {x.narrow(0, 0, kTokens / 8), at::randn({50304, 768}, options).mul(0.02)});
}

}  // namespace
}  // namespace paceline
