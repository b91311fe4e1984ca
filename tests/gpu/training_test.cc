// The parts of the training, in this process: the loader's copies, and steps of a Llama.
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/gpu_test.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/open_dataset.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

constexpr int64_t kLength = 64;
constexpr int64_t kSamples = 8;
constexpr int64_t kVocabulary = 512;

class TrainingTest : public GpuTest {
 protected:
  // Tokens that follow a rule with some noise.
  std::unique_ptr<Dataset> Tokens() {
    const std::string path = testing::TempDir() + "/tokens.bin";
    std::ofstream file(path, std::ios::binary);
    uint32_t state = 1;
    for (int i = 0; i < 100'000; ++i) {
      state = state * 1664525 + 1013904223;
      const auto token = static_cast<uint16_t>((i * 7 + (state >> 30)) % kVocabulary);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
    file.close();
    DataConfig config;
    config.sequence_length = kLength;
    config.token_type = DataConfig::TokenType::kUint16;
    absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenDataset("data.train", path, config);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  static BatchLoader::Options Options(const Dataset& dataset, c10::Device device) {
    BatchLoader::Options options;
    options.sampler.samples = dataset.size();
    options.sampler.batch = kSamples;
    options.sampler.seed = 5;
    options.device = device;
    return options;
  }
};

TEST_F(TrainingTest, LoaderCopiesWhatTheFileHoldsWhileTheDeviceIsBehind) {
  const std::unique_ptr<Dataset> dataset = Tokens();
  BatchLoader there(*dataset, Options(*dataset, device_));
  BatchLoader here(*dataset, Options(*dataset, c10::kCPU));
  std::vector<at::Tensor> copies;
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<Batch> batch = there.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->inputs.device(), device_);
    at::cuda::sleep(2'000'000);
    copies.push_back(batch->inputs.add(batch->targets));
    const absl::StatusOr<Batch> plain = here.Next();
    expected.push_back(plain->inputs.add(plain->targets));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    EXPECT_TRUE(at::equal(copies[i].cpu(), expected[i])) << i;
  }
}

TEST_F(TrainingTest, LlamaInBf16Learns) {
  const std::unique_ptr<Dataset> dataset = Tokens();
  ModelConfig config;
  config.kind = ModelConfig::Kind::kLlama;
  config.llama.dim = 128;
  config.llama.layers = 2;
  config.llama.heads = 4;
  config.llama.kv_heads = 2;
  config.llama.ffn_dim = 256;
  config.llama.vocab_size = kVocabulary;
  config.llama.rope_theta = 1e4;
  const auto model = MakeModel(config, dataset->format(), /*seed=*/1, device_);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : (*model)->parameters()) {
    EXPECT_TRUE(parameter.tensor.is_cuda());
    parameters.push_back(parameter.tensor);
  }
  OptimizerConfig adamw;
  adamw.kind = OptimizerConfig::Kind::kAdamW;
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(adamw, parameters);
  BatchLoader loader(*dataset, Options(*dataset, device_));
  const at::Tensor learning_rate = at::full({}, 3e-3, at::TensorOptions().device(device_));
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    const absl::StatusOr<Batch> batch = loader.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    at::Tensor loss;
    {
      const Autocast autocast(true, device_.type());
      loss = (*model)->Loss(*batch);
    }
    loss.backward();
    optimizer->Step(learning_rate, at::Tensor());
    losses.push_back(loss.item<double>());
  }
  EXPECT_NEAR(losses.front(), std::log(static_cast<double>(kVocabulary)), 1.0);
  EXPECT_LT(losses.back(), losses.front() - 2);
}

}  // namespace
}  // namespace paceline
