// Compares Slipstream's mode `sync` with plain data parallelism in real trainer processes: the
// models are equal up to rounding, for different models and settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

constexpr int kRanks = 4;
// Everything that can happen between the ranks' gradients and the parameters. Clipping does occur.
constexpr char kAll[] =
    "steps: 10 schedule { warmup_steps: 3 cosine {} } accumulation_steps: 2 clip_grad_norm: 0.5 ";
constexpr char kSgd[] = "optimizer { sgd { momentum: 0.9 } weight_decay: 0.01 } ";
constexpr char kAdamW[] = "optimizer { adamw {} learning_rate: 0.003 weight_decay: 0.1 } ";

class SlipstreamSyncTest : public TrainerTest {
 protected:
  // Parameters by name. Running statistics are not compared: with `ddp` each rank has its own.
  std::map<std::string, std::vector<float>> Parameters(const std::string& name, int rank) const {
    const auto file = SafetensorsFile::Open(ExportedFile(name, rank));
    EXPECT_TRUE(file.ok()) << file.status();
    std::map<std::string, std::vector<float>> parameters;
    for (const Safetensor& tensor : file->tensors()) {
      if (absl::StrContains(tensor.name, "running_") ||
          absl::StrContains(tensor.name, "num_batches")) {
        continue;
      }
      const auto* first = reinterpret_cast<const float*>(tensor.bytes.data());
      const size_t count = tensor.bytes.size() / sizeof(float);
      parameters[tensor.name].assign(first, first + count);
    }
    return parameters;
  }

  void TrainAndCompare(const std::string& changes) {
    const auto ddp = RunJob(Spec(kRanks, absl::StrCat(kAll, changes, ExportTo("ddp"))));
    const auto sync =
        RunJob(Spec(kRanks, absl::StrCat(kAll, changes, ExportTo("sync"),
                                         "strategy { slipstream { mode: SLIPSTREAM_SYNC window { "
                                         "min_steps: 1 max_steps: 2 max_cap: 8 } } } ")));
    EXPECT_EQ(Values(*sync, 2, "lr"), Values(*ddp, 2, "lr"));
    const std::vector<double> expected_losses = Values(*ddp, 0, "mean_loss");
    const std::vector<double> losses = Values(*sync, 0, "mean_loss");
    ASSERT_EQ(losses.size(), expected_losses.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i] / expected_losses[i], 1, 1e-4) << i;
    }
    const auto all_expected = Parameters("ddp", 0);
    const auto all = Parameters("sync", 0);
    EXPECT_EQ(all, Parameters("sync", kRanks - 1));
    ASSERT_EQ(all.size(), all_expected.size());
    for (const auto& [name, expected] : all_expected) {
      const std::vector<float>& values = all.at(name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      float largest = 0;
      float difference = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        largest = std::max(largest, std::abs(expected[i]));
        difference = std::max(difference, std::abs(values[i] - expected[i]));
      }
      EXPECT_LE(difference, 1e-5F * std::max(largest, 1.0F)) << name;
    }
  }

  // A text of 64 tokens, each of which predicts the next to some degree.
  std::string Text() const {
    const std::string path = directory_ + "/tokens.u16";
    std::ofstream file(path, std::ios::binary);
    uint16_t token = 1;
    for (int i = 0; i < 4000; ++i) {
      token = static_cast<uint16_t>((5 * token + i % 3) % 64);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
    return absl::StrCat(
        "model { llama { dim: 32 layers: 2 heads: 4 kv_heads: 2 ffn_dim: 64 vocab_size: 64 } } "
        "data { train: '",
        path, "' order: SHUFFLE sequence_length: 16 token_type: TOKEN_TYPE_UINT16 } ");
  }
};

// With smaller batches or a larger learning rate, rounding errors grow tenfold per step.
constexpr char kResNet18[] =
    "model { resnet18 {} } batch_per_rank: 16 data { order: SHUFFLE } "
    "optimizer { sgd { momentum: 0.9 } learning_rate: 0.0005 weight_decay: 0.01 } ";

TEST_F(SlipstreamSyncTest, AnMlpWithSgd) { TrainAndCompare(kSgd); }

TEST_F(SlipstreamSyncTest, AnMlpWithAdamW) { TrainAndCompare(kAdamW); }

TEST_F(SlipstreamSyncTest, ResNet18WithSgd) { TrainAndCompare(kResNet18); }

TEST_F(SlipstreamSyncTest, LlamaWithSgd) { TrainAndCompare(absl::StrCat(Text(), kSgd)); }

TEST_F(SlipstreamSyncTest, LlamaWithAdamW) { TrainAndCompare(absl::StrCat(Text(), kAdamW)); }

}  // namespace
}  // namespace paceline
