#include "worker/trainer/loop/backward_updates.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/model/models.h"
#include "worker/trainer/model/testing/memory_count.h"

namespace paceline {
namespace {

constexpr int64_t kLength = 12;
constexpr int64_t kWords = 50;

LlamaConfig SmallConfig(bool tied, bool recomputed) {
  LlamaConfig config;
  config.dim = 24;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn_dim = 40;
  config.vocab_size = kWords;
  config.rope_theta = 1e4;
  config.tie_embeddings = tied;
  config.checkpoint_activations = recomputed;
  return config;
}

at::Tensor RateOf(double rate) { return MakeLearningRate(at::kCPU).fill_(rate); }

// A llama with its optimizer.
struct Trained {
  Trained(const LlamaConfig& config, const OptimizerConfig& by, int64_t chunk_bytes)
      : bf16(by.compensated) {
    at::manual_seed(7);
    model = MakeLlama(config, kLength, at::kCPU, chunk_bytes);
    for (const NamedTensor& one : model->parameters()) {
      if (bf16) one.tensor.set_data(one.tensor.detach().to(at::kBFloat16));
    }
    parameters = TensorsOf(model->parameters());
    optimizer = MakeOptimizer(by, parameters);
  }

  at::Tensor Loss(const Batch& batch) const {
    const Autocast autocast(bf16, at::kCPU);
    return model->Loss(batch);
  }

  const bool bf16;
  std::unique_ptr<Classifier> model;
  std::vector<at::Tensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

void ExpectSameBits(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected,
                    const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(actual[i].equal(expected[i])) << what << " " << i;
  }
}

void ExpectAsAfterwards(const LlamaConfig& config, const OptimizerConfig& by, int64_t chunk_bytes) {
  const Trained afterwards(config, by, chunk_bytes);
  const Trained within(config, by, chunk_bytes);
  BackwardUpdates updates(within.model->parameters(), *within.optimizer);
  for (int step = 0; step < 3; ++step) {
    Batch batch;
    batch.inputs = at::randint(0, kWords, {3, kLength}, at::kLong);
    batch.targets = at::randint(0, kWords, {3, kLength}, at::kLong);
    const at::Tensor rate = RateOf(0.01 * (1 + step));
    afterwards.Loss(batch).backward();
    const GradientNorms expected = NormsOfGradients(afterwards.parameters);
    afterwards.optimizer->Step(rate, {});
    const at::Tensor loss = within.Loss(batch);
    updates.Begin(rate);
    loss.backward();
    const GradientNorms norms = updates.End();
    EXPECT_TRUE(norms.each.allclose(expected.each, 1e-6));
    EXPECT_TRUE(norms.total.allclose(expected.total, 1e-6));
    for (const at::Tensor& one : within.parameters) EXPECT_FALSE(one.grad().defined());
    ExpectSameBits(within.parameters, afterwards.parameters, "parameter");
    ExpectSameBits(within.optimizer->State(), afterwards.optimizer->State(), "state");
  }
}

TEST(BackwardUpdatesTest, ParametersAndStateAreThoseOfAStepAfterwardsBitForBit) {
  OptimizerConfig adamw;
  adamw.kind = OptimizerConfig::Kind::kAdamW;
  adamw.beta2 = 0.95;
  adamw.weight_decay = 0.1;
  OptimizerConfig sgd;
  sgd.kind = OptimizerConfig::Kind::kSgd;
  sgd.momentum = 0.9;
  OptimizerConfig compensated = adamw;
  compensated.compensated = true;
  for (const OptimizerConfig& by : {adamw, sgd, compensated}) {
    for (const bool tied : {false, true}) {
      for (const bool saves_memory : {false, true}) {
        SCOPED_TRACE(testing::Message() << (by.compensated ? "compensated " : "")
                                        << (tied ? "tied " : "") << saves_memory);
        ExpectAsAfterwards(SmallConfig(tied, saves_memory), by,
                           saves_memory ? 1200 : kLogitsChunkBytes);
      }
    }
  }
}

// Square matrices, one after the other.
struct Chain {
  Chain(int64_t length, int64_t width) {
    for (int64_t i = 0; i < length; ++i) {
      NamedTensor named;
      named.name = std::to_string(i);
      named.tensor = at::randn({width, width}).requires_grad_(true);
      matrices.push_back(named);
    }
  }

  at::Tensor Loss() const {
    at::Tensor x = at::ones({1, matrices.front().tensor.size(0)});
    for (const NamedTensor& one : matrices) x = x.matmul(one.tensor);
    return x.sum();
  }

  std::vector<NamedTensor> matrices;
};

OptimizerConfig PlainSgd() {
  OptimizerConfig sgd;
  sgd.kind = OptimizerConfig::Kind::kSgd;
  return sgd;
}

int64_t PeakOfBackward(const at::Tensor& loss) {
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  loss.backward();
  return count->peak;
}

TEST(BackwardUpdatesTest, GradientsNeverExistTogether) {
  constexpr int64_t kMatrices = 8;
  constexpr int64_t kWidth = 200;
  const Chain plain(kMatrices, kWidth);
  EXPECT_GE(PeakOfBackward(plain.Loss()), 4 * kMatrices * kWidth * kWidth);
  const Chain chain(kMatrices, kWidth);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(PlainSgd(), TensorsOf(chain.matrices));
  BackwardUpdates updates(chain.matrices, *optimizer);
  const at::Tensor loss = chain.Loss();
  updates.Begin(RateOf(1e-6));
  EXPECT_LE(PeakOfBackward(loss), 4 * 3 * kWidth * kWidth);
  updates.End();
}

TEST(BackwardUpdatesTest, OnlyTheOrderedPassUpdates) {
  const Chain chain(1, 4);
  const at::Tensor& matrix = chain.matrices[0].tensor;
  const at::Tensor initial = matrix.detach().clone();
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(PlainSgd(), TensorsOf(chain.matrices));
  {
    BackwardUpdates updates(chain.matrices, *optimizer);
    chain.Loss().backward();
    EXPECT_TRUE(matrix.grad().defined());
    EXPECT_TRUE(matrix.equal(initial));
    const at::Tensor loss = chain.Loss();
    updates.Begin(RateOf(1));
    loss.backward();
    EXPECT_FALSE(matrix.grad().defined());
    updates.End();
    // Its gradient is one everywhere; that of the pass before was dropped.
    EXPECT_TRUE(matrix.equal(initial.sub(1)));
    updates.Begin(RateOf(1));
  }
  chain.Loss().backward();
  EXPECT_TRUE(matrix.grad().defined());
  EXPECT_TRUE(matrix.equal(initial.sub(1)));
}

TEST(BackwardUpdatesTest, ParametersWithoutAGradientAreNamed) {
  const Chain chain(2, 4);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(PlainSgd(), TensorsOf(chain.matrices));
  BackwardUpdates updates(chain.matrices, *optimizer);
  updates.Begin(RateOf(1e-6));
  chain.matrices[0].tensor.sum().backward();
  try {
    updates.End();
    FAIL();
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                testing::HasSubstr("the loss does not depend on 1: "));
  }
}

TEST(BackwardUpdatesTest, ASecondGradientIsAnError) {
  const Chain chain(1, 4);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(PlainSgd(), TensorsOf(chain.matrices));
  BackwardUpdates updates(chain.matrices, *optimizer);
  updates.Begin(RateOf(1e-6));
  chain.Loss().backward();
  EXPECT_THROW(chain.Loss().backward(), c10::Error);
}

}  // namespace
}  // namespace paceline
