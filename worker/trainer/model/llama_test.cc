#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/core/model_memory.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/model/models.h"
#include "worker/trainer/model/testing/memory_count.h"

namespace paceline {
namespace {

using testing::HasSubstr;

constexpr int64_t kLength = 12;

LlamaConfig SmallConfig() {
  LlamaConfig config;
  config.dim = 24;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn_dim = 40;
  config.vocab_size = 50;
  config.rope_theta = 1e4;
  return config;
}

std::unique_ptr<Classifier> Make(const LlamaConfig& config,
                                 int64_t chunk_bytes = kLogitsChunkBytes) {
  at::manual_seed(1);
  return MakeLlama(config, kLength, at::kCPU, chunk_bytes);
}

Batch MakeBatch(uint64_t seed, int64_t samples = 3, int64_t length = kLength) {
  at::manual_seed(seed);
  Batch batch;
  batch.inputs = at::randint(0, 50, {samples, length}, at::kLong);
  batch.targets = at::randint(0, 50, {samples, length}, at::kLong);
  batch.samples = samples;
  return batch;
}

std::vector<at::Tensor> Gradients(const Model& model) {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& named : model.parameters()) gradients.push_back(named.tensor.grad());
  return gradients;
}

void ExpectBitEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "parameter " << i;
}

TEST(LlamaTest, ParametersHaveHuggingFacesNamesOrderAndShapes) {
  LlamaConfig config = SmallConfig();
  config.layers = 1;
  const std::unique_ptr<Classifier> model = Make(config);
  std::vector<std::string> names;
  for (const NamedTensor& named : model->parameters()) {
    std::string text = named.name;
    for (const int64_t size : named.tensor.sizes()) text += " " + std::to_string(size);
    names.push_back(text);
  }
  const std::string block = "model.layers.0.";
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "model.embed_tokens.weight 50 24", block + "self_attn.q_proj.weight 24 24",
                  block + "self_attn.k_proj.weight 12 24", block + "self_attn.v_proj.weight 12 24",
                  block + "self_attn.o_proj.weight 24 24", block + "mlp.gate_proj.weight 40 24",
                  block + "mlp.up_proj.weight 40 24", block + "mlp.down_proj.weight 24 40",
                  block + "input_layernorm.weight 24", block + "post_attention_layernorm.weight 24",
                  "model.norm.weight 24", "lm_head.weight 50 24"));
  config.tie_embeddings = true;
  EXPECT_EQ(Make(config)->parameters().back().name, "model.norm.weight");
  EXPECT_TRUE(Make(config)->buffers().empty());
}

TEST(LlamaTest, ATokenDoesNotSeeTheNextOnes) {
  const std::unique_ptr<Classifier> model = Make(SmallConfig());
  Batch batch = MakeBatch(2);
  const at::Tensor before = model->Forward(batch.inputs);
  EXPECT_EQ(before.sizes().vec(), (std::vector<int64_t>{3, kLength, 50}));
  batch.inputs.select(1, 7).add_(1).remainder_(50);
  const at::Tensor after = model->Forward(batch.inputs);
  EXPECT_TRUE(before.narrow(1, 0, 7).equal(after.narrow(1, 0, 7)));
  EXPECT_FALSE(before.select(1, 7).equal(after.select(1, 7)));
}

TEST(LlamaTest, AShorterSequenceGivesTheSameScores) {
  const std::unique_ptr<Classifier> model = Make(SmallConfig());
  const Batch batch = MakeBatch(2);
  const at::Tensor all = model->Forward(batch.inputs);
  const at::Tensor first = model->Forward(batch.inputs.narrow(1, 0, 5));
  EXPECT_LT(first.sub(all.narrow(1, 0, 5)).abs().max().item<float>(), 1e-6);
}

TEST(LlamaTest, FlopsOfASampleAreThoseOfItsTokens) {
  // 6 (N - N_embedding) + 6 L H (d + d) S per token; S tokens.
  const int64_t products = 3 * (24 * 24 * 2 + 24 * 12 * 2 + 3 * 24 * 40 + 48) + 24 + 50 * 24;
  EXPECT_EQ(Make(SmallConfig())->FlopsPerSample().matrices,
            12.0 * (6 * products + 6 * 3 * 4 * (6 + 6) * 12));
}

TEST(LlamaTest, Bf16IsCloseToFp32) {
  const std::unique_ptr<Classifier> model = Make(SmallConfig());
  const Batch batch = MakeBatch(2);
  const double expected = model->Loss(batch).item<double>();
  const Autocast autocast(true, at::kCPU);
  const at::Tensor loss = model->Loss(batch);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), expected, 0.02);
  EXPECT_NE(loss.item<double>(), expected);
}

// What is computed in float stays so: norms, the residual stream, the sums over equal tokens.
TEST(LlamaTest, Bfloat16WeightsGiveAboutTheGradientsOfCastOnes) {
  for (const bool saves_memory : {false, true}) {
    LlamaConfig config = SmallConfig();
    config.checkpoint_activations = saves_memory;
    const int64_t chunk_bytes = saves_memory ? 4 * 50 * 7 : kLogitsChunkBytes;
    const std::unique_ptr<Classifier> cast = Make(config, chunk_bytes);
    const std::unique_ptr<Classifier> narrow = Make(config, chunk_bytes);
    for (const NamedTensor& one : narrow->parameters()) {
      one.tensor.set_data(one.tensor.detach().to(at::kBFloat16));
    }
    const Batch batch = MakeBatch(2);
    at::Tensor expected;
    at::Tensor loss;
    {
      const Autocast autocast(true, at::kCPU);
      expected = cast->Loss(batch);
      loss = narrow->Loss(batch);
    }
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-2);
    expected.backward();
    loss.backward();
    for (size_t i = 0; i < narrow->parameters().size(); ++i) {
      const at::Tensor gradient = narrow->parameters()[i].tensor.grad();
      const at::Tensor wide = cast->parameters()[i].tensor.grad();
      EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
      EXPECT_LE(gradient.sub(wide).norm().item<double>(), 0.05 * wide.norm().item<double>())
          << narrow->parameters()[i].name;
    }
    const Autocast autocast(true, at::kCPU);
    EXPECT_NEAR(narrow->Evaluate(batch).loss, cast->Evaluate(batch).loss, 0.5);
  }
}

// Matrices of a block that are NaN unless they are gathered.
class FreedWeights : public GatheredWeights {
 public:
  FreedWeights(const Model& model, const std::string& block) {
    for (const NamedTensor& one : model.parameters()) {
      if (one.tensor.dim() < 2 || one.name.find(block) == std::string::npos) continue;
      tensors_.push_back(one.tensor);
      kept_.push_back(one.tensor.detach().clone());
    }
    FreedWeights::Release();
  }

  void Gather() override {
    ++gathered_;
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].set_data(kept_[i]);
  }
  void Release() override {
    for (const at::Tensor& tensor : tensors_) {
      tensor.set_data(at::full(tensor.sizes(), std::nan(""), tensor.options()));
    }
  }
  int gathered() const { return gathered_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> kept_;
  int gathered_ = 0;
};

TEST(LlamaTest, BlocksThatAreGatheredGiveTheSameGradientsBitForBit) {
  LlamaConfig config = SmallConfig();
  config.checkpoint_activations = true;
  const std::unique_ptr<Classifier> whole = Make(config);
  const std::unique_ptr<Classifier> gathered = Make(config);
  std::vector<std::unique_ptr<FreedWeights>> blocks;
  std::vector<GatheredWeights*> pointers;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    blocks.push_back(
        std::make_unique<FreedWeights>(*gathered, "layers." + std::to_string(layer) + "."));
    pointers.push_back(blocks.back().get());
  }
  gathered->SetGatheredBlocks(pointers);
  const Batch batch = MakeBatch(2);
  const at::Tensor loss = gathered->Loss(batch);
  EXPECT_TRUE(loss.equal(whole->Loss(batch)));
  whole->Loss(batch).backward();
  loss.backward();
  ExpectBitEqual(Gradients(*gathered), Gradients(*whole));
  EXPECT_EQ(blocks[0]->gathered(), 2) << "in the forward and in the backward pass";
  EXPECT_EQ(gathered->Evaluate(batch).loss, whole->Evaluate(batch).loss);
  EXPECT_EQ(blocks[0]->gathered(), 3);
}

TEST(LlamaTest, OnlyRecomputedBlocksAreGathered) {
  LlamaConfig config = SmallConfig();
  const std::vector<GatheredWeights*> blocks(static_cast<size_t>(config.layers), nullptr);
  EXPECT_THROW(Make(config)->SetGatheredBlocks(blocks), c10::Error);
  config.checkpoint_activations = true;
  EXPECT_THROW(Make(config)->SetGatheredBlocks({}), c10::Error);
  EXPECT_NO_THROW(Make(config)->SetGatheredBlocks(blocks));
}

TEST(LlamaTest, RecomputedBlocksGiveTheSameGradientsBitForBit) {
  LlamaConfig config = SmallConfig();
  const std::unique_ptr<Classifier> kept = Make(config);
  config.checkpoint_activations = true;
  const std::unique_ptr<Classifier> recomputed = Make(config);
  const Batch batch = MakeBatch(2);
  for (const bool bf16 : {false, true}) {
    at::Tensor kept_loss;
    at::Tensor recomputed_loss;
    {
      const Autocast autocast(bf16, at::kCPU);
      kept_loss = kept->Loss(batch);
    }
    {
      const Autocast autocast(bf16, at::kCPU);
      recomputed_loss = recomputed->Loss(batch);
    }
    EXPECT_TRUE(kept_loss.equal(recomputed_loss));
    // A second pass adds to the first one's gradients.
    kept_loss.backward();
    recomputed_loss.backward();
    ExpectBitEqual(Gradients(*kept), Gradients(*recomputed));
  }
}

TEST(LlamaTest, TheReducerSeesTheGradientsOfRecomputedBlocks) {
  constexpr int kRanks = 2;
  constexpr int kSteps = 3;  // The Reducer changes its buckets after the first.
  TrainerConfig ranks;
  ranks.member.world_size = kRanks;
  ranks.startup_timeout = absl::Seconds(20);
  const Batch batches[kRanks] = {MakeBatch(2), MakeBatch(3)};
  LlamaConfig config = SmallConfig();
  std::vector<std::vector<at::Tensor>> gradients[2][kRanks];
  for (const bool checkpoint : {false, true}) {
    config.checkpoint_activations = checkpoint;
    const std::unique_ptr<Classifier> models[kRanks] = {Make(config), Make(config)};
    RunRanks(ranks, [&](const TrainerConfig& trainer, Groups& groups) {
      const auto rank = static_cast<size_t>(trainer.rank());
      GradientMean mean(models[rank]->parameters(), WireFormat::kFp32, /*unused=*/false);
      mean.SetGroup(&groups.all());
      for (int step = 0; step < kSteps; ++step) {
        mean.BeginForward(/*last=*/true);
        mean.Backward(models[rank]->Loss(batches[rank]), [] {});
        std::vector<at::Tensor> copies;
        for (const at::Tensor& gradient : Gradients(*models[rank])) {
          copies.push_back(gradient.clone());
        }
        gradients[checkpoint ? 1 : 0][rank].push_back(std::move(copies));
        for (const NamedTensor& named : models[rank]->parameters()) {
          named.tensor.mutable_grad() = at::Tensor();
        }
      }
    });
  }
  for (size_t step = 0; step < kSteps; ++step) {
    ExpectBitEqual(gradients[0][0][step], gradients[1][0][step]);
    ExpectBitEqual(gradients[1][0][step], gradients[1][1][step]);
  }
}

struct Memory {
  int64_t kept = 0;  // Kept between forward and backward pass.
  int64_t peak = 0;
};

Memory MeasureStep(bool checkpoint) {
  LlamaConfig config = SmallConfig();
  config.layers = 10;
  config.checkpoint_activations = checkpoint;
  const std::unique_ptr<Classifier> model = Make(config);
  const Batch batch = MakeBatch(2, /*samples=*/50);
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  at::Tensor loss = model->Loss(batch);
  Memory memory;
  memory.kept = count->live;
  loss.backward();
  memory.peak = count->peak;
  return memory;
}

TEST(LlamaTest, RecomputedBlocksKeepTheirInputsOnly) {
  const Memory kept = MeasureStep(false);
  const Memory recomputed = MeasureStep(true);
  RecordProperty("kept", std::to_string(kept.kept) + " then " + std::to_string(recomputed.kept));
  // 10 inputs of blocks and the probabilities (2 widths): 12 instead of more than 150 widths.
  EXPECT_LT(recomputed.kept, kept.kept / 8);
  EXPECT_LT(recomputed.peak, kept.peak / 3);
  // The controller refuses jobs by this formula, so it must not promise more than is true, nor much
  // less: 10 blocks, 600 tokens.
  const LlamaSize size{24, 10, 4, 2, 40, 50, false};
  const double formula = 10 * 600 * LlamaBlockActivationBytes(size, /*bf16=*/false);
  EXPECT_GE(static_cast<double>(kept.kept), formula);
  EXPECT_LE(static_cast<double>(kept.kept), 1.25 * formula);
  EXPECT_GE(recomputed.kept, 10 * 600 * 4 * 24);
}

TEST(LlamaTest, NothingButTheGraphOutlivesTheLoss) {
  const std::unique_ptr<Classifier> model = Make(SmallConfig());
  const Batch batch = MakeBatch(2, /*samples=*/50);
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  at::NoGradGuard no_grad;
  const at::Tensor loss = model->Loss(batch);
  EXPECT_LT(count->live, 1024);
  EXPECT_GT(count->peak, 100'000);
}

// 36 tokens of 50 classes are 7200 bytes of logits; here in 6 chunks of 6 tokens.
constexpr int64_t kSmallChunks = 1200;

TEST(LlamaTest, ALossInChunksIsCloseToThatOfAllLogits) {
  for (const bool tied : {false, true}) {
    LlamaConfig config = SmallConfig();
    config.tie_embeddings = tied;
    const std::unique_ptr<Classifier> whole = Make(config);
    config.checkpoint_activations = true;
    const std::unique_ptr<Classifier> in_chunks = Make(config, kSmallChunks);
    const Batch batch = MakeBatch(2);
    for (const bool bf16 : {false, true}) {
      at::Tensor expected;
      at::Tensor actual;
      {
        const Autocast autocast(bf16, at::kCPU);
        expected = whole->Loss(batch);
      }
      {
        const Autocast autocast(bf16, at::kCPU);
        actual = in_chunks->Loss(batch);
      }
      EXPECT_EQ(actual.scalar_type(), at::kFloat);
      EXPECT_NEAR(actual.item<double>(), expected.item<double>(), bf16 ? 1e-3 : 1e-5);
      expected.backward();
      actual.backward();
      const std::vector<at::Tensor> all = Gradients(*whole);
      for (size_t i = 0; i < all.size(); ++i) {
        const at::Tensor gradient = Gradients(*in_chunks)[i];
        const double error = gradient.sub(all[i]).norm().item<double>();
        EXPECT_LE(error, (bf16 ? 3e-2 : 1e-5) * all[i].norm().item<double>())
            << whole->parameters()[i].name;
      }
    }
  }
}

TEST(LlamaTest, LogitsThatFitOneChunkGiveTheSameBits) {
  const std::unique_ptr<Classifier> plain = Make(SmallConfig());
  const std::unique_ptr<Classifier> fits = Make(SmallConfig(), 7200);
  const Batch batch = MakeBatch(2);
  const at::Tensor expected = plain->Classifier::Loss(batch);
  const at::Tensor actual = fits->Loss(batch);
  EXPECT_TRUE(actual.equal(expected));
  expected.backward();
  actual.backward();
  ExpectBitEqual(Gradients(*fits), Gradients(*plain));
}

TEST(LlamaTest, EvaluationInChunksHasTheSameSums) {
  const std::unique_ptr<Classifier> plain = Make(SmallConfig());
  const std::unique_ptr<Classifier> in_chunks = Make(SmallConfig(), kSmallChunks);
  Batch batch = MakeBatch(2);
  // Half of the predictions are right.
  const at::Tensor best = plain->Forward(batch.inputs).argmax(-1);
  batch.targets.narrow(1, 0, kLength / 2).copy_(best.narrow(1, 0, kLength / 2));
  const Score expected = plain->Evaluate(batch);
  const Score actual = in_chunks->Evaluate(batch);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-3);
  EXPECT_EQ(actual.correct, expected.correct);
  EXPECT_GE(actual.correct, 18);
  EXPECT_EQ(actual.predictions, 36);
}

TEST(LlamaTest, ImagesAreRefused) {
  ModelConfig config;
  config.kind = ModelConfig::Kind::kLlama;
  config.llama = SmallConfig();
  SampleFormat format;
  format.image = ImageFormat{3, 4, 4, 10};
  const absl::Status status = MakeModel(config, format, 0, at::kCPU).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("llama needs tokens"));
}

}  // namespace
}  // namespace paceline
