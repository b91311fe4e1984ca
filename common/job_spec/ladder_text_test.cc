#include "common/job_spec/ladder_text.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::string Again(const std::vector<v1::LadderLevel>& ladder) {
  return LadderText({ladder.begin(), ladder.end()});
}

v1::Strategy Hsgd(const std::vector<v1::LadderLevel>& ladder) {
  v1::Strategy strategy;
  strategy.mutable_hsgd()->mutable_ladder()->Add(ladder.begin(), ladder.end());
  return strategy;
}

v1::Strategy Parse(const std::string& text) {
  v1::Strategy strategy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &strategy)) << text;
  return strategy;
}

TEST(LadderTextTest, WhatIsReadIsShownTheSame) {
  for (const char* text :
       {"4:8", "2:2,4:4,8:all", "2:node,8:rack:int8,16:all:int8", "synchronous", "500:all:nesterov",
        "2:2,8:all:slowmo/1/0.5", "2:2,500:all:int8:nesterov/0.7/0.9",
        "2:2:fp16,4:4:bf16,8:all:fp8", "50:all:int4:nesterov/0.7/0.9", "50:all:int4",
        "100:all:nesterov/0.7/0.9/4/10/0.5", "100:8:slowmo/1/0.5/1/10/0"}) {
    const auto ladder = ParseLadder(text);
    ASSERT_TRUE(ladder.ok()) << ladder.status();
    EXPECT_EQ(Again(*ladder), text);
  }
  EXPECT_EQ(Again(*ParseLadder("4:8:fp32")), "4:8") << "the default is not shown";
  EXPECT_EQ(Again(*ParseLadder("4:8:fp32:slowmo/1/0")), "4:8:slowmo/1/0");
}

TEST(LadderTextTest, LevelThatCannotBeReadIsNamed) {
  for (const char* level : {"",
                            "4",
                            "synchronous",
                            "x:2",
                            "4:two",
                            "4:2:fp64",
                            "4:2:int8:x",
                            "4:",
                            ":2",
                            "4.5:2",
                            "4:2:adam",
                            "4:2:nesterov/0.7",
                            "4:2:nesterov/0.7/x",
                            "4:2:nesterov/0.7/0.9/1",
                            "4:2:nesterov/0/0.9",
                            "4:2:nesterov/-1/0.9",
                            "4:2:nesterov/nan/0.9",
                            "4:2:nesterov/0.7/0.9/4/x/0",
                            "4:2:nesterov/0/0.9/4/1/0",
                            "4:2:nesterov:int8",
                            "4:2:int8:nesterov:slowmo",
                            "4:2:"}) {
    const auto ladder = ParseLadder(std::string("2:2,") + level);
    ASSERT_FALSE(ladder.ok()) << level;
    EXPECT_THAT(std::string(ladder.status().message()),
                HasSubstr("\"" + std::string(level) + "\" is no level"));
  }
}

TEST(LadderTextTest, Strategies) {
  EXPECT_EQ(StrategyText({}), "ddp");
  v1::Strategy local;
  local.mutable_local_sgd()->set_period(8);
  EXPECT_EQ(StrategyText(local), "local_sgd 8:all");
  local.mutable_local_sgd()->set_format(v1::WIRE_FORMAT_FP8);
  EXPECT_EQ(StrategyText(local), "local_sgd 8:all:fp8");
  local.mutable_local_sgd()->clear_format();
  local.mutable_local_sgd()->mutable_outer()->set_kind(v1::OUTER_SLOWMO);
  EXPECT_EQ(StrategyText(local), "local_sgd 8:all:slowmo");
  EXPECT_EQ(StrategyText(Hsgd(*ParseLadder("2:2,4:all"))), "hsgd 2:2,4:all");
  EXPECT_EQ(StrategyText(Hsgd({})), "hsgd synchronous");
  v1::Strategy slipstream;
  slipstream.mutable_slipstream()->set_mode(v1::SLIPSTREAM_DROP);
  EXPECT_EQ(StrategyText(slipstream), "slipstream drop");
}

TEST(LadderTextTest, SlipstreamHasItsModeAndWhereItMattersItsWindow) {
  const std::string window = "window { min_steps: 1 max_steps: 8 max_cap: 32 }";
  EXPECT_EQ(StrategyText(Parse("slipstream { mode: SLIPSTREAM_DROP " + window + " }")),
            "slipstream drop");
  EXPECT_EQ(StrategyText(Parse("slipstream { mode: SLIPSTREAM_PAUSE " + window +
                               " } optimizer_state: OPTIMIZER_STATE_AVERAGE")),
            "slipstream pause, window 1:8:32, optimizer state averaged");
}

TEST(LadderTextTest, WhatTheControllerHasChosenIsSaid) {
  const v1::Strategy asked = Parse("auto {}");
  const v1::Strategy drop = Parse("slipstream { mode: SLIPSTREAM_DROP }");
  EXPECT_EQ(StrategyInUse(asked, asked), "auto, at present ddp");
  EXPECT_EQ(StrategyInUse(asked, drop), "auto, at present slipstream drop");
  EXPECT_EQ(StrategyInUse(Parse("hsgd {}"), Hsgd(*ParseLadder("8:all:int8:nesterov/0.7/0.9"))),
            "hsgd 8:all:int8:nesterov/0.7/0.9");
}

}  // namespace
}  // namespace paceline
