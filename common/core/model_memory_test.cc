#include "common/core/model_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

constexpr LlamaSize kDebug{256, 6, 16, 16, 768, 2048, false};
constexpr LlamaSize k8b{4096, 32, 32, 8, 14336, 128256, false};

// 8b with AdamW in bfloat16, 1 sequence of 8192 tokens, blocks computed again.
LlamaTraining Train8b() {
  LlamaTraining training;
  training.size = k8b;
  training.tokens = 8192;
  training.bf16 = true;
  training.checkpoint_activations = true;
  training.optimizer_values = 2;
  return training;
}

std::vector<std::string> Kinds(const LlamaTraining& training) {
  std::vector<std::string> kinds;
  for (const MemoryPart& part : LlamaMemory(training)) kinds.push_back(part.what);
  return kinds;
}

TEST(ModelMemoryTest, ABlocksActivations) {
  // 8 B * 4096 + 2 B * (4 * 4096 + 2 * 1024 + 3 * 14336): keys and values are 8 * 128 wide.
  EXPECT_EQ(LlamaBlockActivationBytes(k8b, /*bf16=*/true), 155'648);
  // 8 B * 4096 + 4 B * (the same).
  EXPECT_EQ(LlamaBlockActivationBytes(k8b, /*bf16=*/false), 278'528);
}

TEST(ModelMemoryTest, TheOptimizersStepNeedsMostWhereActivationsAreSmall) {
  // 8,030,261,248 parameters * (4 + 8 + 4) B; forward is 4 + 8 B and 5.6 GB of activations.
  EXPECT_EQ(TotalBytes(LlamaMemory(Train8b())), 128'484'179'968);
  EXPECT_THAT(Kinds(Train8b()),
              ElementsAre("parameters, float32", "optimizer state", "gradients, float32"));
}

TEST(ModelMemoryTest, Bfloat16WeightsAndTheirCompensation) {
  LlamaTraining training = Train8b();
  training.bf16_weights = true;
  // 8,030,261,248 parameters * (2 + 2 + 4 + 2) B.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 80'302'612'480);
  EXPECT_THAT(Kinds(training),
              ElementsAre("parameters, bfloat16", "compensation of their rounding, bfloat16",
                          "optimizer state", "gradients, bfloat16"));
  // Without the gradients; two floats for the level.
  training.quantized_levels = 1;
  EXPECT_EQ(LlamaCopyBytes(training), 8'030'261'248.0 * (8 + 8));
  // Point and momentum are floats; a copy has the point as the reference of int8.
  LlamaTraining outer = training;
  outer.outer_levels = 1;
  EXPECT_EQ(LlamaCopyBytes(outer), 8'030'261'248.0 * (8 + 12));
  // 12 B of the level's reference, change and residual, 8 B of point and momentum.
  EXPECT_EQ(TotalBytes(LlamaMemory(outer)), 80'302'612'480 + 20 * 8'030'261'248);
  // Nothing is cast for the forward pass.
  training.checkpoint_activations = false;
  training.gradients_stay = true;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)),
            80'302'612'480 + 12 * 8'030'261'248 + 40'802'189'312 + 525'336'576);
}

TEST(ModelMemoryTest, QuantisedGradientsHaveTwoRestsOfWhichACopyHasOne) {
  LlamaTraining training = Train8b();
  const double memory = TotalBytes(LlamaMemory(training));
  const double copy = LlamaCopyBytes(training);
  training.quantized_gradients = true;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), memory + 8 * 8'030'261'248);
  EXPECT_EQ(LlamaCopyBytes(training), copy + 4 * 8'030'261'248);
}

TEST(ModelMemoryTest, GradientsThatStayAreThereInTheForwardPass) {
  LlamaTraining training = Train8b();
  training.gradients_stay = true;
  // 128,484,179,968 + 32 * 8192 * 4 B * 4096 + 8192 * 155,648 B.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 134'054'215'680);
}

TEST(ModelMemoryTest, GradientsThatAreUsedInTheBackwardPassAreNeverThereTogether) {
  LlamaTraining training = Train8b();
  training.updates_in_backward = true;
  // 8,030,261,248 * 12 B + 32 * 8192 * 4 B * 4096 + 8192 * 155,648 B.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 96'363'134'976 + 4'294'967'296 + 1'275'068'416);
  EXPECT_THAT(Kinds(training),
              ElementsAre("parameters, float32", "optimizer state", "inputs of the blocks, float32",
                          "one block, computed again"));
}

TEST(ModelMemoryTest, ActivationsThatAreKeptAndCastWeights) {
  LlamaTraining training = Train8b();
  training.gradients_stay = true;
  training.checkpoint_activations = false;
  // Blocks have 32 * (218,112,000 - 2 * 4096) parameters in matrices, 2 B each in bfloat16.
  // 32 * 8192 * 155,648 B. Logits of 8192 tokens are 4,202,692,608 B: 16 chunks of 512 tokens,
  // 8 B * 512 * 128,256.
  constexpr double kOthers = 128'484'179'968 + 13'958'643'712 + 40'802'189'312;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), kOthers + 525'336'576);
  // 2 B * 512 * 128,256.
  training.logits_in_place = true;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), kOthers + 131'334'144);
  EXPECT_EQ(LlamaMemory(training).back().what, "logits of a chunk");
}

TEST(ModelMemoryTest, CastWeightsAreGoneAtTheOptimizersStep) {
  LlamaTraining training = Train8b();
  training.checkpoint_activations = false;
  training.tokens = 256;
  // Forward: 8,030,261,248 * 12 B, casts of 13,958,643,712 B, less than 2 GB of activations.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 128'484'179'968);
  EXPECT_THAT(Kinds(training),
              ElementsAre("parameters, float32", "optimizer state", "gradients, float32"));
}

TEST(ModelMemoryTest, ASmallLlamaInFloat32) {
  LlamaTraining training;
  training.size = kDebug;
  training.tokens = 32 * 256;
  training.optimizer_values = 2;
  // 6,163,712 parameters * 12 B; 6 blocks * 8192 tokens * (8 * 256 + 4 * (6 * 256 + 3 * 768)) B;
  // one chunk of 8192 * 2048 logits, 8 B each.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 73'964'544 + 855'638'016 + 134'217'728);
  training.optimizer_values = 0;
  // Only those of a chunk of several become their gradients.
  training.logits_in_place = true;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 24'654'848 + 855'638'016 + 134'217'728);
}

TEST(ModelMemoryTest, OfShardedParametersARankHasAPartAndTheWholeWeights) {
  LlamaTraining training = Train8b();
  training.shards = 4;
  // 2,007,565,312 parameters * (4 + 8 + 4) B; in the blocks 6,979,321,856 * 2 B, in the rest
  // 1,050,939,392 * 4 B.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 32'121'044'992 + 13'958'643'712 + 4'203'757'568);
  EXPECT_THAT(Kinds(training), ElementsAre("parameters, float32", "optimizer state",
                                           "embedding, output projection and norms, whole, float32",
                                           "matrices of the blocks, whole", "gradients, float32"));
  EXPECT_EQ(LlamaMemory(training)[0].formula, "2,007,565,312 x 4 B");
  training.bf16 = false;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 32'121'044'992 + 2 * 13'958'643'712 + 4'203'757'568);
}

TEST(ModelMemoryTest, InStage3OneBlockIsWhole) {
  LlamaTraining training = Train8b();
  training.shards = 4;
  training.zero_stage = 3;
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 32'121'044'992 + 4'203'757'568);
  training.gradients_stay = true;
  // 218,103,808 * 2 B of a block; activations as above.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)),
            32'121'044'992 + 4'203'757'568 + 436'207'616 + 4'294'967'296 + 1'275'068'416);
}

TEST(ModelMemoryTest, AModelIsMadeWholeBeforeItIsDivided) {
  LlamaTraining training = Train8b();
  training.shards = 64;
  training.zero_stage = 3;
  // 8,030,261,248 * 4 B. In a step: 125,472,832 * 12 B, and 10 GB that are as above.
  EXPECT_EQ(TotalBytes(LlamaMemory(training)), 32'121'044'992);
  EXPECT_THAT(Kinds(training), ElementsAre("parameters before they are divided, float32"));
}

TEST(ModelMemoryTest, EachFormulaIsWrittenOut) {
  const std::vector<MemoryPart> parts = LlamaMemory(Train8b());
  EXPECT_EQ(parts[0].formula, "8,030,261,248 x 4 B");
  EXPECT_EQ(parts[1].formula, "8,030,261,248 x 8 B");
  LlamaTraining large = Train8b();
  large.tokens = 1e6;
  EXPECT_EQ(LlamaMemory(large)[2].formula, "32 blocks x 1,000,000 tokens x 16,384 B");
}

TEST(ModelMemoryTest, SizesBeyondAllMachinesDoNotOverflow) {
  LlamaTraining training = Train8b();
  constexpr int64_t kMost = 2147483647;
  training.size = {kMost, kMost, 1, 1, kMost, kMost, false};
  training.tokens = 4e18;
  EXPECT_GT(TotalBytes(LlamaMemory(training)), 1e36);
}

}  // namespace
}  // namespace paceline
