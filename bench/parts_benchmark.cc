// How long the parts of a Llama between its matrix products take, and its loss, forward and
// backward pass: our loops beside torch's operations, in turn, on the CPU. Prints JSON to stdout:
// [{"case": ..., "ours_ms": [...], "torch_ms": [...]}, ...]
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/model/chunked_cross_entropy.h"
#include "worker/trainer/model/cpu_llama_kernels.h"
#include "worker/trainer/model/llama_ops.h"

namespace paceline {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  Tensors inputs;
  std::function<at::Tensor(const Tensors&, const LlamaKernels*)> op;
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

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const at::Tensor x = at::randn({kBatch * kLength, kDim});
  const RotaryTable table = MakeRotaryTable(kLength, kDim / kHeads, 1e4, at::kCPU);
  const at::Tensor targets = at::randint(0, kVocabSize, {kLossTokens}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::string suffix = type == at::kFloat ? ", fp32" : ", bf16";
    cases.push_back({"RMS norm" + suffix,
                     {x, at::rand({kDim})},
                     [type](const Tensors& in, const LlamaKernels* kernels) {
                       return RmsNorm(in[0], in[1], 1e-5, type, kernels);
                     }});
    cases.push_back({"rotation" + suffix,
                     {x.view({kBatch, kLength, kHeads, kDim / kHeads}).to(type)},
                     [table](const Tensors& in, const LlamaKernels* kernels) {
                       return Rotate(in[0], table, kernels);
                     }});
    cases.push_back({"SwiGLU" + suffix,
                     {at::randn({kBatch * kLength, kFfnDim}).to(type),
                      at::randn({kBatch * kLength, kFfnDim}).to(type)},
                     [](const Tensors& in, const LlamaKernels* kernels) {
                       return SwiGlu(in[0], in[1], kernels);
                     }});
    cases.push_back({"output projection and loss" + suffix,
                     {x.narrow(0, 0, kLossTokens), at::randn({kVocabSize, kDim}).mul(0.02)},
                     [type, targets](const Tensors& in, const LlamaKernels* kernels) {
                       return ChunkedCrossEntropy(in[0], in[1], targets, kLossTokens / 4, type,
                                                  kernels);
                     }});
  }
  return cases;
}

// Milliseconds of a forward and backward pass.
double Time(const Case& one, const LlamaKernels* kernels, int passes) {
  Tensors leaves;
  for (const at::Tensor& input : one.inputs) {
    leaves.push_back(input.detach().clone().requires_grad_(true));
  }
  const at::Tensor gradient = one.op(leaves, kernels).detach();
  const absl::Time start = absl::Now();
  for (int pass = 0; pass < passes; ++pass) {
    for (const at::Tensor& leaf : leaves) leaf.mutable_grad().reset();
    torch::autograd::backward({one.op(leaves, kernels)}, {gradient});
  }
  return absl::ToDoubleMilliseconds(absl::Now() - start) / passes;
}

int Run(int argc, char** argv) {
  int rounds = 5;
  int passes = 20;
  int threads = 1;
  CLI::App app("How long the parts of a Llama take");
  app.add_option("--rounds", rounds, "measurements of each part and way");
  app.add_option("--passes", passes, "of a measurement");
  app.add_option("--threads", threads, "of torch");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  at::manual_seed(1);
  nlohmann::json results = nlohmann::json::array();
  for (const Case& one : Cases()) {
    std::vector<double> ours;
    std::vector<double> torchs;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(Time(one, &CpuLlamaKernels(), passes));
      torchs.push_back(Time(one, nullptr, passes));
    }
    results.push_back({{"case", one.name}, {"ours_ms", ours}, {"torch_ms", torchs}});
  }
  std::cout << results.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Run(argc, argv); }
