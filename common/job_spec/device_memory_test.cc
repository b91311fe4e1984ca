#include "common/job_spec/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kGiB = int64_t{1} << 30;

// A llama with AdamW on one GPU.
v1::JobSpec Llama(v1::LlamaPreset preset, int batch, int64_t length) {
  v1::JobSpec spec = Sound();
  spec.set_device(v1::CUDA);
  spec.mutable_model()->mutable_llama()->set_preset(preset);
  spec.mutable_data()->set_sequence_length(length);
  spec.set_batch_per_rank(batch);
  spec.mutable_optimizer()->mutable_adamw();
  return spec;
}

std::string Problem(v1::JobSpec spec, int64_t device_bytes) {
  FillDefaults(&spec);
  EXPECT_TRUE(Fields(spec).empty());
  const absl::Status status = CheckDeviceMemory(spec, device_bytes);
  EXPECT_EQ(status.code(),
            status.ok() ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}

TEST(DeviceMemoryTest, AJobThatFitsToTheByteIsAccepted) {
  // Parameters, optimizer state, activations, logits: model_memory_test.cc has the terms.
  constexpr int64_t kNeeded = 73'964'544 + 855'638'016 + 134'217'728;
  const v1::JobSpec spec = Llama(v1::LLAMA_PRESET_DEBUG, 32, 256);
  EXPECT_EQ(Problem(spec, kNeeded), "");
  EXPECT_NE(Problem(spec, kNeeded - 1), "");
}

TEST(DeviceMemoryTest, OneRankThatUpdatesInTheBackwardPassNeedsNoRoomForGradients) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 1, 8192);
  spec.set_device(v1::CPU);
  spec.set_precision(v1::BF16);
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  // 8,030,261,248 * 16 B = 119.7 GiB, or * 12 B and 5.6 GB of activations = 94.9 GiB.
  EXPECT_NE(Problem(spec, 95 * kGiB), "");
  spec.set_on_nonfinite(v1::NON_FINITE_IGNORE);
  EXPECT_EQ(Problem(spec, 95 * kGiB), "");
  spec.set_device(v1::CUDA);
  EXPECT_NE(Problem(spec, 95 * kGiB), "");
  spec.set_device(v1::CPU);
  spec.set_clip_grad_norm(1);
  EXPECT_NE(Problem(spec, 95 * kGiB), "");
}

// Chunks of 512 tokens and 128,256 words.
TEST(DeviceMemoryTest, LogitsOfAChunkBecomeTheirGradientsOnCpus) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 4, 2048);
  EXPECT_THAT(Problem(spec, kGiB), HasSubstr("512 tokens x 128,256 words x 8 B = 501.0 MiB"));
  spec.set_device(v1::CPU);
  EXPECT_THAT(Problem(spec, kGiB), HasSubstr("512 tokens x 128,256 words x 4 B = 250.5 MiB"));
}

v1::JobSpec WithCopies(v1::Device device) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_DEBUG, 32, 256);
  spec.set_device(device);
  spec.set_ranks(2);
  spec.mutable_strategy()->mutable_hsgd();
  spec.mutable_recovery()->set_max_failures(1);
  spec.mutable_recovery()->set_copy_every_steps(10);
  return spec;
}

// Three floats of four bytes for each parameter, in four copies.
constexpr int64_t kFourCopies = int64_t{4} * 73'964'544;

TEST(DeviceMemoryTest, CopiesOfRanksOnCpusAreInTheSameMemory) {
  const v1::JobSpec with = WithCopies(v1::CPU);
  v1::JobSpec without = with;
  without.mutable_recovery()->set_copy_every_steps(0);
  int64_t enough = kGiB;
  while (!Problem(without, enough).empty()) enough += kGiB / 64;
  EXPECT_THAT(Problem(with, enough + kFourCopies - kGiB / 64), HasSubstr("copies of the state"));
  EXPECT_EQ(Problem(with, enough + kFourCopies), "");
}

TEST(DeviceMemoryTest, CopiesOfRanksOnGpusNeedMemoryOfTheHost) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  FillDefaults(&spec);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies).ok());
  const absl::Status status = CheckCopyMemory(spec, kFourCopies - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("for copies (4 x 70.5 MiB)"));
  spec.mutable_recovery()->set_copy_every_steps(0);
  EXPECT_TRUE(CheckCopyMemory(spec, 0).ok());
}

// Two floats more for each parameter: the level's reference and residuals.
TEST(DeviceMemoryTest, CopiesHaveWhatLevelsOfInt8Need) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  v1::LadderLevel* const level = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  level->set_period(8);
  level->set_size(2);
  level->set_format(v1::WIRE_FORMAT_INT8);
  FillDefaults(&spec);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies / 3 * 5).ok());
  EXPECT_FALSE(CheckCopyMemory(spec, kFourCopies / 3 * 5 - 1).ok());
}

// Two floats more for each parameter, on the device and in a copy; with int8 the copy has the
// point once.
TEST(DeviceMemoryTest, OuterStepsNeedMemory) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  v1::LadderLevel* const level = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  level->set_period(8);
  level->set_size(2);
  level->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  EXPECT_THAT(Problem(spec, 1), HasSubstr("points and momenta of outer steps: 6,163,712 x 8 B"));
  FillDefaults(&spec);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies / 3 * 5).ok());
  EXPECT_FALSE(CheckCopyMemory(spec, kFourCopies / 3 * 5 - 1).ok());
  level->set_format(v1::WIRE_FORMAT_INT8);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies / 3 * 6).ok());
  EXPECT_FALSE(CheckCopyMemory(spec, kFourCopies / 3 * 6 - 1).ok());
}

TEST(DeviceMemoryTest, QuantisedGradientsNeedMemory) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  spec.set_gradient_format(v1::WIRE_FORMAT_FP8);
  EXPECT_THAT(Problem(spec, 1), HasSubstr("rounding errors of gradients: 6,163,712 x 8 B"));
  FillDefaults(&spec);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies / 3 * 4).ok());
  EXPECT_FALSE(CheckCopyMemory(spec, kFourCopies / 3 * 4 - 1).ok());
}

TEST(DeviceMemoryTest, OnlyLevelsWithPeersKeepRoundingErrors) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  v1::LadderLevel* level = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  level->set_period(4);
  level->set_level(v1::SCOPE_NODE);
  level->set_format(v1::WIRE_FORMAT_FP8);
  level = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  level->set_period(8);
  level->set_level(v1::SCOPE_ALL);
  EXPECT_THAT(Problem(spec, 1), Not(HasSubstr("of averages")));
  level->set_format(v1::WIRE_FORMAT_BF16);
  EXPECT_THAT(Problem(spec, 1),
              HasSubstr("references, changes and rounding errors of averages: 6,163,712 x 12 B"));
}

TEST(DeviceMemoryTest, AStreamedAverageNeedsMemoryForAFragment) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  v1::LadderLevel* const level = spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  level->set_period(8);
  level->set_level(v1::SCOPE_ALL);
  v1::Outer& outer = *level->mutable_outer();
  outer.set_kind(v1::OUTER_NESTEROV);
  outer.set_fragments(2);
  EXPECT_THAT(Problem(spec, 1), HasSubstr("an average under way, of a fragment: 3,081,856 x 8 B"));
  EXPECT_THAT(Problem(spec, 1), Not(HasSubstr("rounding errors")));
  level->set_format(v1::WIRE_FORMAT_INT4);
  EXPECT_THAT(Problem(spec, 1), HasSubstr("\n  rounding errors of averages: 6,163,712 x 4 B"));
}

TEST(DeviceMemoryTest, CopiesOfAShardedModelAreOfTheRanksPart) {
  v1::JobSpec spec = WithCopies(v1::CUDA);
  spec.set_shards(2);
  FillDefaults(&spec);
  EXPECT_TRUE(CheckCopyMemory(spec, kFourCopies / 2).ok());
  EXPECT_FALSE(CheckCopyMemory(spec, kFourCopies / 2 - 1).ok());
}

TEST(DeviceMemoryTest, TheErrorHasTheArithmeticAndEachKeyThatHelps) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 4, 2048);
  spec.set_ranks(8);
  // 8,030,261,248 * 16 B; 32 * 8192 * 278,528 B; logits of 512 tokens.
  // checkpoint_activations: 8,030,261,248 * 16 B + 32 * 8192 * 16,384 B + 8192 * 278,528 B.
  // precision bf16 would need 171.1 GiB. A batch of 1: a quarter of the activations.
  EXPECT_EQ(Problem(spec, 140 * kGiB),
            "a rank needs at least 188.1 GiB of memory, and no GPU where the job may run has more "
            "than 140.0 GiB:"
            "\n  parameters, float32: 8,030,261,248 x 4 B = 29.9 GiB"
            "\n  optimizer state: 8,030,261,248 x 8 B = 59.8 GiB"
            "\n  gradients, float32: 8,030,261,248 x 4 B = 29.9 GiB"
            "\n  activations: 32 blocks x 8,192 tokens x 278,528 B = 68.0 GiB"
            "\n  logits at once, float32, and their log-probabilities: 512 tokens x 128,256 words "
            "x 8 B = 501.0 MiB"
            "\nby this count it would fit with model.checkpoint_activations: true (125.8 GiB), or "
            "with batch_per_rank: 1 (137.1 GiB)");
}

TEST(DeviceMemoryTest, KeysThatHelpTogether) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 16, 8192);
  spec.mutable_optimizer()->mutable_sgd();
  // 8,030,261,248 * 4 B, and for each sample 32 * 8192 * 16,384 B + 8192 * 155,648 B.
  EXPECT_THAT(Problem(spec, 80 * kGiB),
              EndsWith("\nby this count it would fit with all of model.checkpoint_activations: "
                       "true, precision: bf16, batch_per_rank: 9 (76.6 GiB)"));
  // As many tokens in one sample, where two keys are enough.
  spec.set_batch_per_rank(1);
  spec.mutable_data()->set_sequence_length(16 * 8192);
  EXPECT_THAT(Problem(spec, 120 * kGiB),
              EndsWith("\nby this count it would fit with all of model.checkpoint_activations: "
                       "true, precision: bf16 (112.9 GiB)"));
}

// 6,163,712 parameters: 8 bytes instead of 12 for each, and nothing is cast.
TEST(DeviceMemoryTest, Bfloat16WeightsTakeLess) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_DEBUG, 32, 256);
  spec.mutable_optimizer()->mutable_adamw()->set_beta2(0.95);
  spec.set_precision(v1::BF16_FULL);
  // 6 blocks * 8192 tokens * (8 * 256 + 2 * (6 * 256 + 3 * 768)) B, and logits.
  constexpr int64_t kNeeded = 6'163'712 * 8 + int64_t{6} * 8192 * 9'728 + 134'217'728;
  EXPECT_EQ(Problem(spec, kNeeded), "");
  EXPECT_THAT(Problem(spec, kNeeded - 1),
              HasSubstr("\n  parameters, bfloat16: 6,163,712 x 2 B = 11.8 MiB"
                        "\n  compensation of their rounding, bfloat16: 6,163,712 x 2 B"));
}

TEST(DeviceMemoryTest, ABatchThatTheJobMayNotHaveIsNotAdvised) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_DEBUG, 6, 256);
  spec.set_ranks(4);
  spec.mutable_recovery()->set_max_failures(1);
  spec.mutable_recovery()->set_min_ranks(3);
  // What a batch of 5 needs. But three ranks cannot share 4 * 5 or 4 * 4 samples equally.
  const std::string problem = Problem(spec, 253'284'352);
  EXPECT_THAT(problem, HasSubstr("or with batch_per_rank: 3 (182.6 MiB)"));
}

TEST(DeviceMemoryTest, EachAdviceIsAccepted) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 16, 8192);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  spec.set_precision(v1::BF16);
  spec.set_batch_per_rank(9);
  EXPECT_EQ(Problem(spec, 80 * kGiB), "");
  spec.set_batch_per_rank(10);
  EXPECT_NE(Problem(spec, 80 * kGiB), "");
}

TEST(DeviceMemoryTest, WhatNoKeyMakesFit) {
  const auto ends_with = [](const char* what) {
    return EndsWith(absl::StrCat("do not make it fit: take a smaller ", what,
                                 ", or add nodes with more memory"));
  };
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 1, 8192);
  spec.set_precision(v1::BF16);
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  const std::string problem = Problem(spec, 80 * kGiB);
  EXPECT_THAT(problem, StartsWith("a rank needs at least 119.7 GiB"));
  EXPECT_THAT(problem, ends_with("model"));
  // 70,553,706,496 * 16 B.
  EXPECT_THAT(Problem(Llama(v1::LLAMA_PRESET_70B, 1, 8192), 80 * kGiB), ends_with("model"));
  // 8,030,261,248 * 8 B are 59.8 GiB, but the inputs of blocks 32 * 1,000,000 * 16,384 B.
  spec = Llama(v1::LLAMA_PRESET_8B, 1, 1'000'000);
  spec.mutable_optimizer()->mutable_sgd();
  EXPECT_THAT(Problem(spec, 80 * kGiB), ends_with("data.sequence_length"));
}

// The parts are those of model_memory_test.cc.
TEST(DeviceMemoryTest, AShardedModelIsDividedFurther) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 1, 8192);
  spec.set_ranks(8);
  spec.set_precision(v1::BF16);
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  EXPECT_THAT(Problem(spec, 80 * kGiB), EndsWith("fit with all of shards: 2 (76.7 GiB)"));
  EXPECT_THAT(Problem(spec, 40 * kGiB),
              EndsWith("fit with all of shards: 4, zero_stage: 3 (33.8 GiB)"));
  spec.set_shards(4);
  EXPECT_EQ(Problem(spec, 47 * kGiB), "");
  EXPECT_THAT(Problem(spec, 40 * kGiB), EndsWith("fit with all of zero_stage: 3 (33.8 GiB)"));
  spec.set_zero_stage(3);
  EXPECT_EQ(Problem(spec, 34 * kGiB), "");
}

TEST(DeviceMemoryTest, ADividedModelMayNeedASmallerBatchToo) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 16, 8192);
  spec.set_ranks(8);
  spec.set_precision(v1::BF16);
  spec.mutable_model()->mutable_llama()->set_checkpoint_activations(true);
  // 4,015,130,624 * 12 B, whole weights as in model_memory_test.cc, and for each sample
  // 32 * 8192 * 16,384 B + 8192 * 155,648 B.
  EXPECT_THAT(Problem(spec, 80 * kGiB),
              EndsWith("fit with all of shards: 2, batch_per_rank: 3 (77.4 GiB)"));
  // A part of the model fits, but not one sample.
  spec.set_batch_per_rank(1);
  spec.mutable_data()->set_sequence_length(1'000'000);
  EXPECT_THAT(Problem(spec, 80 * kGiB),
              EndsWith("take a smaller data.sequence_length, or add nodes with more memory"));
}

TEST(DeviceMemoryTest, OnCpusTheNodesMemoryCounts) {
  v1::JobSpec spec = Llama(v1::LLAMA_PRESET_8B, 1, 256);
  spec.set_device(v1::CPU);
  EXPECT_THAT(Problem(spec, 64 * kGiB), HasSubstr("no node where the job may run has more than"));
}

TEST(DeviceMemoryTest, OfOtherModelsTooLittleIsKnown) { EXPECT_EQ(Problem(Sound(), 1), ""); }

}  // namespace
}  // namespace paceline
