#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobSpec Spec(const std::string& strategy, const std::string& others = "",
                 const std::string& optimizer = "sgd {}") {
  v1::JobSpec spec;
  const std::string text = "name: 'a' ranks: 8 model { mlp {} } data { train: '/t' } steps: 100 " +
                           others + " optimizer { " + optimizer +
                           " learning_rate: 1 } strategy { " + strategy + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// "FIELD MESSAGE" of each problem.
std::vector<std::string> Problems(const v1::JobSpec& spec) {
  std::vector<std::string> problems;
  for (const SpecProblem& problem : CheckJobSpec(spec)) {
    problems.push_back(problem.field + " " + problem.message);
  }
  return problems;
}

TEST(SlipstreamDefaultsTest, ModeFollowsTheOptimizer) {
  v1::JobSpec spec = Spec("slipstream {}");
  FillDefaults(&spec);
  EXPECT_EQ(spec.strategy().slipstream().mode(), v1::SLIPSTREAM_FREE);
  EXPECT_EQ(spec.strategy().optimizer_state(), v1::OPTIMIZER_STATE_LOCAL);
  spec = Spec("slipstream {}", "", "adamw {}");
  FillDefaults(&spec);
  EXPECT_EQ(spec.strategy().slipstream().mode(), v1::SLIPSTREAM_DROP);
  spec = Spec("slipstream { mode: SLIPSTREAM_SYNC }", "", "adamw {}");
  FillDefaults(&spec);
  EXPECT_EQ(spec.strategy().slipstream().mode(), v1::SLIPSTREAM_SYNC);
}

TEST(SlipstreamDefaultsTest, BoundsOfTheWindowFollowEachOther) {
  const auto filled = [](const std::string& window) {
    v1::JobSpec spec = Spec("slipstream { window { " + window + " } }");
    FillDefaults(&spec);
    FillDefaults(&spec);
    const v1::SlipstreamWindow& w = spec.strategy().slipstream().window();
    return std::vector<int64_t>{w.min_steps(), w.max_steps(), w.max_cap()};
  };
  EXPECT_THAT(filled(""), ElementsAre(1, 64, 256));
  EXPECT_THAT(filled("max_steps: 8"), ElementsAre(1, 8, 32));
  EXPECT_THAT(filled("min_steps: 100"), ElementsAre(100, 100, 400));
  EXPECT_THAT(filled("max_cap: 100"), ElementsAre(1, 64, 100));
  EXPECT_THAT(filled("max_steps: 2147483647"), ElementsAre(1, 2147483647, 2147483647));
}

TEST(CheckSlipstreamTest, SoundStrategiesAreAccepted) {
  EXPECT_THAT(Problems(Spec("slipstream {}")), IsEmpty());
  EXPECT_THAT(Problems(Spec("slipstream { mode: SLIPSTREAM_DROP }", "clip_grad_norm: 1")),
              IsEmpty());
  for (const char* size : {"0", "1", "4"}) {
    EXPECT_THAT(Problems(Spec(std::string("slipstream {} gradient_group_size: ") + size)),
                IsEmpty());
  }
  EXPECT_THAT(Problems(Spec("slipstream { mode: SLIPSTREAM_PAUSE window { max_steps: 1 } } "
                            "optimizer_state: OPTIMIZER_STATE_AVERAGE",
                            "on_nonfinite: NON_FINITE_SKIP precision: BF16 accumulation_steps: 2 "
                            "stragglers { mode: STRAGGLER_MODE_OFF } max_restarts: 2")),
              IsEmpty());
}

TEST(CheckSlipstreamTest, ImpossibleValuesAreNamed) {
  EXPECT_THAT(
      Problems(Spec("slipstream { mode: 9 window { min_steps: -1 max_steps: -2 max_cap: -3 } } "
                    "warmup_steps: 5 gradient_group_size: 3 optimizer_state: 7")),
      ElementsAre("strategy.optimizer_state is the unknown number 7; allowed is local, average",
                  "strategy.slipstream.mode is the unknown number 9; allowed is sync, drop, free, "
                  "pause",
                  "strategy.slipstream.window.min_steps is -1; allowed is 1 to 2147483647",
                  "strategy.slipstream.window.max_steps is -2; allowed is 1 to 2147483647",
                  "strategy.slipstream.window.max_cap is -3; allowed is 1 to 2147483647",
                  "strategy.warmup_steps is 5; kind slipstream has none: begin in mode sync, and "
                  "change the mode later (paceline job mode)",
                  "strategy.gradient_group_size is 3; allowed is 0 or 1 for no groups, or a "
                  "divisor of the number of ranks (8)"));
}

TEST(CheckSlipstreamTest, WindowEndsWhereItBeginsOrLater) {
  EXPECT_THAT(Problems(Spec("slipstream { window { min_steps: 8 max_steps: 4 } }")),
              ElementsAre("strategy.slipstream.window.max_steps is 4; allowed is min_steps (8) and "
                          "more"));
}

TEST(CheckSlipstreamTest, TheCapIsNotBelowTheWindow) {
  EXPECT_THAT(Problems(Spec("slipstream { window { max_cap: 8 } }")),
              ElementsAre("strategy.slipstream.window.max_cap is 8; allowed is max_steps (64) and "
                          "more: ranks would wait for the end of longer windows"));
}

TEST(CheckSlipstreamTest, StateIsAveragedWhereAllStop) {
  EXPECT_THAT(Problems(Spec("slipstream {} optimizer_state: OPTIMIZER_STATE_AVERAGE")),
              ElementsAre("strategy.optimizer_state is average; it needs mode pause instead of "
                          "free"));
}

TEST(CheckSlipstreamTest, Fp8IsNone) {
  EXPECT_THAT(
      Problems(Spec("slipstream { mode: SLIPSTREAM_FREE }", "gradient_format: WIRE_FORMAT_FP8")),
      ElementsAre("gradient_format is fp8; strategy slipstream sends fp32 or int8"));
  EXPECT_THAT(Problems(Spec("auto {}", "gradient_format: WIRE_FORMAT_INT8")),
              ElementsAre("gradient_format is int8; strategy auto sends fp32 only"));
}

TEST(CheckSlipstreamTest, Int4IsNoneEither) {
  for (const char* const strategy : {"slipstream { mode: SLIPSTREAM_FREE }", "auto {}"}) {
    EXPECT_THAT(
        Problems(Spec(strategy, "gradient_format: WIRE_FORMAT_INT4")),
        ElementsAre("gradient_format is int4, which has 15 values and is for averages that end in "
                    "an outer step; give int8, or leave it out"));
  }
}

TEST(CheckSlipstreamTest, Int8IsAFormatOfUpdates) {
  constexpr char kInt8[] = "gradient_format: WIRE_FORMAT_INT8";
  for (const char* const mode : {"FREE", "PAUSE"}) {
    const std::string strategy = std::string("slipstream { mode: SLIPSTREAM_") + mode + " }";
    EXPECT_THAT(Problems(Spec(strategy, kInt8)), ElementsAre());
  }
  EXPECT_THAT(Problems(Spec("slipstream { mode: SLIPSTREAM_SYNC }", kInt8)),
              ElementsAre("strategy.slipstream.mode is sync, which sends gradients; "
                          "gradient_format int8 is one of updates and needs mode free or pause"));
  EXPECT_THAT(Problems(Spec("slipstream { mode: SLIPSTREAM_DROP }", kInt8)), testing::SizeIs(1));
  EXPECT_THAT(Problems(Spec("slipstream {}", std::string(kInt8) + " device: CUDA")),
              ElementsAre("gradient_format is int8; on cuda strategy slipstream sends fp32 only"));
}

TEST(CheckSlipstreamTest, WhatDoesNotGoWithItIsRefusedAtOnce) {
  EXPECT_THAT(
      Problems(Spec("slipstream {}",
                    "gradient_format: WIRE_FORMAT_BF16 on_nonfinite: NON_FINITE_IGNORE")),
      ElementsAre("gradient_format is bf16; strategy slipstream sends fp32 or int8",
                  "on_nonfinite is ignore, but with strategy slipstream one rank's would spoil the "
                  "model of all; allowed is stop, skip"));
  EXPECT_THAT(Problems(Spec("slipstream {}",
                            "recovery { max_failures: 3 } stragglers { mode: STRAGGLER_MODE_AUTO "
                            "}")),
              IsEmpty());
  v1::JobSpec spec = Spec("slipstream {}", "device: CUDA cuda_graph: true");
  spec.set_ranks(1);
  EXPECT_THAT(Problems(spec),
              ElementsAre("cuda_graph is true; strategy slipstream has no steps that are all "
                          "alike"));
  EXPECT_THAT(Problems(Spec("slipstream {}", "device: CUDA")), ElementsAre());
  EXPECT_THAT(
      Problems(Spec("auto {}", "device: CUDA")),
      ElementsAre("device is cuda; strategy auto runs on cpu only: name ddp or slipstream"));
  spec = Spec("slipstream {}");
  spec.mutable_model()->mutable_resnet18()->set_sync_batchnorm(true);
  EXPECT_THAT(Problems(spec),
              ElementsAre("model.resnet18.sync_batchnorm is true beside a strategy whose ranks do "
                          "not wait for each other at every step; it needs strategy ddp"));
}

TEST(CheckAutoTest, BeginsSynchronousAndRecovers) {
  v1::JobSpec spec = Spec("auto {}");
  FillDefaults(&spec);
  FillDefaults(&spec);
  EXPECT_EQ(spec.strategy().warmup_steps(), 50);
  EXPECT_EQ(spec.strategy().optimizer_state(), v1::OPTIMIZER_STATE_UNSPECIFIED);
  EXPECT_EQ(spec.recovery().max_failures(), 3);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_THAT(Problems(Spec("auto {} warmup_steps: 5",
                            "recovery { max_failures: 1 } stragglers { mode: STRAGGLER_MODE_AUTO "
                            "}")),
              IsEmpty());
  v1::JobSpec other = Spec("ddp {}");
  FillDefaults(&other);
  EXPECT_EQ(other.recovery().max_failures(), 0);
}

TEST(CheckAutoTest, WhatDoesNotGoWithItIsRefused) {
  EXPECT_THAT(
      Problems(Spec("auto {} warmup_steps: -1 gradient_group_size: 2 optimizer_state: "
                    "OPTIMIZER_STATE_AVERAGE")),
      ElementsAre("strategy.warmup_steps is -1; allowed is 0 and more",
                  "strategy.gradient_group_size is 2; kind auto has no groups: leave it out",
                  "strategy.optimizer_state is average; kind auto decides that by itself: leave it "
                  "out"));
  EXPECT_THAT(
      Problems(Spec("auto {}",
                    "gradient_format: WIRE_FORMAT_FP16 on_nonfinite: NON_FINITE_IGNORE "
                    "stragglers { mode: STRAGGLER_MODE_OFF }")),
      ElementsAre("gradient_format is fp16; strategy auto sends fp32 only",
                  "on_nonfinite is ignore, but with strategy auto one rank's would spoil the model "
                  "of all; allowed is stop, skip",
                  "stragglers.mode is off; strategy auto goes by what is measured of the ranks: "
                  "allowed is advise, auto"));
}

}  // namespace
}  // namespace paceline
