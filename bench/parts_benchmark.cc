// How long the parts of a Llama between its matrix products take, and its loss, forward and
// backward pass: our loops beside torch's operations, in turn, on the CPU. Prints JSON to stdout:
// [{"case": ..., "ours_ms": [...], "torch_ms": [...]}, ...]
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/model/chunked_cross_entropy.h"
#include "worker/trainer/model/llama_ops.h"

namespace paceline {
namespace {

using Tensors = std::vector<at::Tensor>;

using Op = std::function<at::Tensor(const Tensors&)>;

struct Case {
  std::string name;
  Tensors inputs;
  Op ours;
  Op torchs;
  int passes_share = 1;  // One in so many passes: for parts that take longer than others.
};

// Of the Llama of bench/step.py: 8 sequences of 256 tokens.
constexpr int64_t kBatch = 8;
constexpr int64_t kLength = 256;
constexpr int64_t kDim = 256;
constexpr int64_t kHeads = 8;
constexpr int64_t kFfnDim = 768;
// Of the loss, whose logits do not fit one chunk.
constexpr int64_t kVocabSize = 50304;
constexpr int64_t kLossTokens = 1024;

Case NormCase(at::ScalarType type) {
  return {"RMS norm",
          {at::randn({kBatch * kLength, kDim}), at::rand({kDim})},
          [type](const Tensors& in) { return RmsNorm(in[0], in[1], 1e-5, type); },
          [type](const Tensors& in) {
            return at::rms_norm(in[0], in[1].sizes(), in[1], 1e-5).to(type);
          }};
}

Case RotationCase(at::ScalarType type) {
  const RotaryTable table = MakeRotaryTable(kLength, kDim / kHeads, 1e4, at::kCPU);
  const at::Tensor cos = at::cat({table.cos, table.cos}, 1).unsqueeze(1).to(type);
  const at::Tensor sin = at::cat({table.sin, table.sin}, 1).unsqueeze(1).to(type);
  return {"rotation",
          {at::randn({kBatch, kLength, kHeads, kDim / kHeads}).to(type)},
          [table](const Tensors& in) { return Rotate(in[0], table); },
          [cos, sin](const Tensors& in) {
            const std::vector<at::Tensor> half = in[0].chunk(2, -1);
            return in[0].mul(cos).add(at::cat({half[1].neg(), half[0]}, -1).mul(sin));
          }};
}

Case SwiGluCase(at::ScalarType type) {
  return {"SwiGLU",
          {at::randn({kBatch * kLength, kFfnDim}).to(type),
           at::randn({kBatch * kLength, kFfnDim}).to(type)},
          [](const Tensors& in) { return SwiGlu(in[0], in[1]); },
          [](const Tensors& in) { return at::silu(in[0]).mul(in[1]); }};
}

Case LossCase(at::ScalarType type) {
  const at::Tensor targets = at::randint(0, kVocabSize, {kLossTokens}, at::kLong);
  return {"output projection and loss",
          {at::randn({kLossTokens, kDim}), at::randn({kVocabSize, kDim}).mul(0.02)},
          [type, targets](const Tensors& in) {
            return ChunkedCrossEntropy(in[0], in[1], targets, kLossTokens / 4, type);
          },
          [type, targets](const Tensors& in) {
            const at::Tensor logits = at::linear(in[0].to(type), in[1].to(type));
            return at::cross_entropy_loss(logits.to(at::kFloat), targets);
          },
          10};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (Case one : {NormCase(type), RotationCase(type), SwiGluCase(type), LossCase(type)}) {
      one.name += type == at::kFloat ? ", fp32" : ", bf16";
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

// Milliseconds of a forward and backward pass.
double Time(const Op& op, const Tensors& inputs, int passes) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(true));
  }
  const at::Tensor gradient = op(leaves).detach();
  const absl::Time start = absl::Now();
  for (int pass = 0; pass < passes; ++pass) {
    for (const at::Tensor& leaf : leaves) leaf.mutable_grad().reset();
    torch::autograd::backward({op(leaves)}, {gradient});
  }
  return absl::ToDoubleMilliseconds(absl::Now() - start) / passes;
}

int Run(int argc, char** argv) {
  int rounds = 5;
  int passes = 20;
  int threads = 1;
  CLI::App app("How long the parts of a Llama take");
  app.add_option("--rounds", rounds, "measurements of each part and way");
  app.add_option("--passes", passes, "of a measurement; of the loss a tenth");
  app.add_option("--threads", threads, "of torch");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  at::manual_seed(1);
  nlohmann::json results = nlohmann::json::array();
  for (const Case& one : Cases()) {
    std::vector<double> ours;
    std::vector<double> torchs;
    const int own_passes = std::max(1, passes / one.passes_share);
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(Time(one.ours, one.inputs, own_passes));
      torchs.push_back(Time(one.torchs, one.inputs, own_passes));
    }
    results.push_back({{"case", one.name}, {"ours_ms", ours}, {"torch_ms", torchs}});
  }
  std::cout << results.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Run(argc, argv); }
