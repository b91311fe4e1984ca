#include <vector>

#include "common/job_spec/job_spec.h"
#include "common/job_spec/testing/sound_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(FillDefaultsTest, WritesEveryDocumentedDefault) {
  v1::JobSpec spec = Sound();
  FillDefaults(&spec);
  EXPECT_EQ(spec.ranks(), 1);
  EXPECT_EQ(spec.device(), v1::CPU);
  EXPECT_EQ(spec.data().order(), v1::SHUFFLE);
  EXPECT_EQ(spec.batch_per_rank(), 32);
  EXPECT_TRUE(spec.schedule().has_constant());
  EXPECT_EQ(spec.precision(), v1::FP32);
  EXPECT_EQ(spec.log_every(), 10);
  EXPECT_EQ(spec.collective_timeout_s(), 300);
  EXPECT_EQ(spec.startup_timeout_s(), 900);
  EXPECT_EQ(spec.stall_warning_s(), 100);
  EXPECT_EQ(spec.hang_timeout_s(), 200);
  EXPECT_EQ(spec.give_up_s(), 900);
  EXPECT_EQ(spec.recovery().max_failures(), 0);
  EXPECT_EQ(spec.recovery().window_s(), 3600);
  EXPECT_EQ(spec.recovery().batch(), v1::KEEP_GLOBAL_BATCH);
  EXPECT_EQ(spec.data().sequence_length(), 256);
  EXPECT_EQ(spec.data().prefetch_threads(), 1);
  EXPECT_EQ(spec.data().prefetch_batches(), 2);
  EXPECT_TRUE(spec.data().drop_last());
  EXPECT_TRUE(spec.strategy().has_ddp());
  EXPECT_EQ(spec.accumulation_steps(), 1);
  EXPECT_EQ(spec.on_nonfinite(), v1::NON_FINITE_STOP);
  EXPECT_EQ(spec.gradient_format(), v1::WIRE_FORMAT_FP32);
}

TEST(FillDefaultsTest, StartupTimeoutIsAtLeastTenMinutes) {
  v1::JobSpec spec = Sound();
  spec.set_collective_timeout_s(10);
  FillDefaults(&spec);
  EXPECT_EQ(spec.startup_timeout_s(), 600);
}

TEST(FillDefaultsTest, WritesTheDefaultsOfTheChosenKinds) {
  v1::JobSpec spec = Sound();
  spec.mutable_model()->mutable_mlp();
  spec.mutable_optimizer()->mutable_adamw();
  spec.mutable_schedule()->mutable_step();
  spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  spec.set_allow_chaos(true);
  spec.add_chaos();
  FillDefaults(&spec);
  EXPECT_THAT(spec.model().mlp().hidden(), ElementsAre(128));
  EXPECT_EQ(spec.optimizer().adamw().beta1(), 0.9);
  EXPECT_EQ(spec.optimizer().adamw().beta2(), 0.999);
  EXPECT_EQ(spec.optimizer().adamw().epsilon(), 1e-8);
  EXPECT_EQ(spec.schedule().step().gamma(), 0.1);
  EXPECT_EQ(spec.strategy().optimizer_state(), v1::OPTIMIZER_STATE_LOCAL);
  EXPECT_EQ(spec.strategy().hsgd().ladder(0).format(), v1::WIRE_FORMAT_FP32);
  EXPECT_EQ(spec.chaos(0).steps(), 1);
  EXPECT_EQ(spec.chaos(0).probability(), 1);
}

TEST(FillDefaultsTest, OuterStepsHaveTheDefaultsOfTheirKind) {
  v1::JobSpec spec = Sound();
  spec.mutable_strategy()->mutable_hsgd()->add_ladder();
  v1::Outer& nesterov = *spec.mutable_strategy()->mutable_hsgd()->add_ladder()->mutable_outer();
  nesterov.set_kind(v1::OUTER_NESTEROV);
  nesterov.set_momentum(0);
  FillDefaults(&spec);
  EXPECT_FALSE(spec.strategy().hsgd().ladder(0).has_outer());
  EXPECT_EQ(spec.strategy().hsgd().ladder(1).outer().learning_rate(), 0.7);
  EXPECT_EQ(spec.strategy().hsgd().ladder(1).outer().momentum(), 0) << "as it was given";
  v1::JobSpec local = Sound();
  local.mutable_strategy()->mutable_local_sgd()->mutable_outer()->set_kind(v1::OUTER_SLOWMO);
  FillDefaults(&local);
  EXPECT_EQ(local.strategy().local_sgd().outer().learning_rate(), 1);
  EXPECT_EQ(local.strategy().local_sgd().outer().momentum(), 0.5);
  v1::Hsgd ladder;
  ladder.add_ladder()->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  FillLadder(ladder.mutable_ladder());
  EXPECT_EQ(ladder.ladder(0).outer().momentum(), 0.9);
  EXPECT_FALSE(ladder.ladder(0).outer().has_alpha());
  ladder.mutable_ladder(0)->mutable_outer()->set_delay(3);
  FillLadder(ladder.mutable_ladder());
  EXPECT_EQ(ladder.ladder(0).outer().alpha(), 0.5);
  ladder.mutable_ladder(0)->mutable_outer()->set_alpha(0);
  FillLadder(ladder.mutable_ladder());
  EXPECT_EQ(ladder.ladder(0).outer().alpha(), 0) << "as it was given";
}

v1::Llama Filled(v1::LlamaPreset preset) {
  v1::JobSpec spec = Sound();
  spec.mutable_model()->mutable_llama()->set_preset(preset);
  FillDefaults(&spec);
  return spec.model().llama();
}

// dim, layers, heads, kv_heads, ffn_dim, vocab_size.
std::vector<int64_t> Sizes(const v1::Llama& llama) {
  return {llama.dim(),      llama.layers(),  llama.heads(),
          llama.kv_heads(), llama.ffn_dim(), llama.vocab_size()};
}

TEST(FillDefaultsTest, WritesTheSizesOfALlamasPreset) {
  const v1::Llama none = Filled(v1::LLAMA_PRESET_UNSPECIFIED);
  EXPECT_EQ(none.preset(), v1::LLAMA_PRESET_DEBUG);
  EXPECT_THAT(Sizes(none), ElementsAre(256, 6, 16, 16, 768, 2048));
  EXPECT_EQ(none.rope_theta(), 5e5);
  EXPECT_EQ(none.norm_epsilon(), 1e-5);
  EXPECT_TRUE(none.has_tie_embeddings());
  EXPECT_FALSE(none.tie_embeddings());

  const v1::Llama small = Filled(v1::LLAMA_PRESET_160M);
  EXPECT_THAT(Sizes(small), ElementsAre(768, 12, 12, 12, 2048, 50304));
  EXPECT_EQ(small.rope_theta(), 1e4);
  EXPECT_FALSE(small.tie_embeddings());

  const v1::Llama medium = Filled(v1::LLAMA_PRESET_1B);
  EXPECT_THAT(Sizes(medium), ElementsAre(2048, 16, 32, 8, 8192, 128256));
  EXPECT_EQ(medium.rope_theta(), 5e5);
  EXPECT_TRUE(medium.tie_embeddings());

  const v1::Llama large = Filled(v1::LLAMA_PRESET_8B);
  EXPECT_THAT(Sizes(large), ElementsAre(4096, 32, 32, 8, 14336, 128256));
  EXPECT_EQ(large.rope_theta(), 5e5);
  EXPECT_FALSE(large.tie_embeddings());

  const v1::Llama largest = Filled(v1::LLAMA_PRESET_70B);
  EXPECT_THAT(Sizes(largest), ElementsAre(8192, 80, 64, 8, 28672, 128256));
  EXPECT_EQ(largest.rope_theta(), 5e5);
  EXPECT_FALSE(largest.tie_embeddings());
}

TEST(FillDefaultsTest, KeepsTheSizesOfALlamaThatWereGiven) {
  v1::JobSpec spec = Sound();
  v1::Llama* llama = spec.mutable_model()->mutable_llama();
  llama->set_preset(v1::LLAMA_PRESET_1B);
  llama->set_layers(2);
  llama->set_tie_embeddings(false);
  FillDefaults(&spec);
  EXPECT_THAT(Sizes(*llama), ElementsAre(2048, 2, 32, 8, 8192, 128256));
  EXPECT_FALSE(llama->tie_embeddings());
}

TEST(FillDefaultsTest, KeepsWhatWasGiven) {
  v1::JobSpec spec = Sound();
  spec.set_ranks(3);
  spec.mutable_optimizer()->mutable_adamw()->set_beta1(0);
  spec.mutable_schedule()->mutable_cosine();
  FillDefaults(&spec);
  EXPECT_EQ(spec.ranks(), 3);
  EXPECT_EQ(spec.optimizer().adamw().beta1(), 0);
  EXPECT_TRUE(spec.schedule().has_cosine());
}

TEST(FillDefaultsTest, DoingItTwiceChangesNothingMore) {
  v1::JobSpec once = Sound();
  once.mutable_model()->mutable_llama();
  once.mutable_strategy()->mutable_hsgd()->add_ladder();
  once.set_allow_chaos(true);
  once.add_chaos();
  FillDefaults(&once);
  v1::JobSpec twice = once;
  FillDefaults(&twice);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(once, twice));
}

}  // namespace
}  // namespace paceline
