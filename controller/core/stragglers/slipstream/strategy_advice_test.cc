#include "controller/core/stragglers/slipstream/strategy_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

StrategyInputs InputsOf(OwnTimes times, double exchange_s = 0.005) {
  StrategyInputs inputs;
  inputs.ladder.homes = Homes(times.ranks, 1, times.ranks);
  inputs.ladder.times = std::move(times);
  inputs.ladder.costs.Add(inputs.ladder.times.ranks, exchange_s);
  inputs.ladder.step = 1000;
  inputs.ladder.steps = 20000;
  inputs.ladder.warmup_steps = 50;
  return inputs;
}

// Each 40th step one of 8 ranks stalls, by turns, so that any part of the steps is like the whole.
OwnTimes Stalled(double stall_s) {
  OwnTimes times{8, 1280, std::vector<float>(8 * 1280, 0.055F)};
  for (size_t step = 0; step < 1280; step += 40) {
    times.seconds[step * 8 + step / 40 % 8] += static_cast<float>(stall_s);
  }
  return times;
}

const SlipstreamChoice kFree = {SlipstreamMode::kFree, {}};
const SlipstreamChoice kDrop = {SlipstreamMode::kDrop, {}};

TEST(StrategyAdviceTest, StallsLeadFromDdpToTheModeOfTheOptimizer) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0.02)));
  const StrategyAdvice sgd = AdviseStrategy(inputs, std::nullopt);
  EXPECT_EQ(sgd.move, StrategyMove::kChange);
  EXPECT_EQ(sgd.choice, kFree);
  EXPECT_FALSE(sgd.current.has_value());
  EXPECT_EQ(sgd.current_s, sgd.plan.ddp.step_s);
  EXPECT_GT(sgd.current_s / sgd.step_s, 2);
  inputs.is_adaptive = true;
  EXPECT_EQ(AdviseStrategy(inputs, std::nullopt).choice, kDrop);
}

TEST(StrategyAdviceTest, NothingChangesInTheWarmUp) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0.02)));
  inputs.ladder.step = 49;
  const StrategyAdvice advice = AdviseStrategy(inputs, std::nullopt);
  EXPECT_EQ(advice.move, StrategyMove::kWarmUp);
  EXPECT_FALSE(advice.choice.has_value());
  EXPECT_THAT(advice.reason, HasSubstr("warm-up until step 50"));
}

TEST(StrategyAdviceTest, QuietJobsStayAndGoBack) {
  const StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0)));
  EXPECT_EQ(AdviseStrategy(inputs, std::nullopt).move, StrategyMove::kKeep);
  const StrategyAdvice back = AdviseStrategy(inputs, kFree);
  EXPECT_EQ(back.move, StrategyMove::kSynchronous);
  EXPECT_FALSE(back.choice.has_value());
  EXPECT_EQ(back.current, kFree);
  EXPECT_EQ(back.step_s, back.plan.ddp.step_s);
}

TEST(StrategyAdviceTest, WhatIsChosenIsKept) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0.02)));
  EXPECT_EQ(AdviseStrategy(inputs, kFree).move, StrategyMove::kKeep);
  EXPECT_EQ(AdviseStrategy(inputs, kFree).current_s, AdviseStrategy(inputs, kFree).step_s);
  inputs.is_adaptive = true;
  EXPECT_EQ(AdviseStrategy(inputs, kDrop).move, StrategyMove::kKeep);
}

TEST(StrategyAdviceTest, AdamWLeavesAModeThatCostsAccuracyForASlowerOne) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0.02)));
  inputs.is_adaptive = true;
  const StrategyAdvice advice = AdviseStrategy(inputs, kFree);
  EXPECT_EQ(advice.move, StrategyMove::kChange);
  EXPECT_EQ(advice.choice, kDrop);
  EXPECT_GT(advice.step_s, advice.current_s);
}

TEST(StrategyAdviceTest, OneTroubleOfTheMeasuredStepsIsNoReason) {
  DrawnTimes wish = Stalling(8, 0.05);
  wish.steps = 400;
  OwnTimes times = Draw(wish);
  DrawnTimes quiet = Stalling(8, 0);
  quiet.steps = 400;
  const OwnTimes later = Draw(quiet);
  times.seconds.insert(times.seconds.end(), later.seconds.begin(), later.seconds.end());
  times.steps = 800;
  const StrategyInputs inputs = InputsOf(std::move(times));
  const StrategyAdvice advice = AdviseStrategy(inputs, std::nullopt);
  EXPECT_GT(advice.plan.speedup, 2) << "on average";
  EXPECT_EQ(advice.move, StrategyMove::kKeep);
}

TEST(StrategyAdviceTest, DdpIsLeftForATenth) {
  int too_little = 0;
  int enough = 0;
  for (int twentieths = 0; twentieths < 20; ++twentieths) {
    const double stall_s = 0.05 * twentieths;
    const StrategyAdvice advice = AdviseStrategy(InputsOf(Stalled(stall_s)), std::nullopt);
    if (!advice.plan.slipstream.has_value()) continue;
    const bool gains = advice.plan.speedup >= 1.10;
    ++(gains ? enough : too_little);
    EXPECT_EQ(advice.move, gains ? StrategyMove::kChange : StrategyMove::kKeep)
        << stall_s << " s: " << advice.plan.speedup;
  }
  EXPECT_GT(too_little, 0);
  EXPECT_GT(enough, 0);
}

TEST(StrategyAdviceTest, ModeIsLeftForATwentieth) {
  int too_little = 0;
  int enough = 0;
  for (int halves = 1; halves < 20; ++halves) {
    const double exchange_s = 0.0005 * halves;  // Half a millisecond and more.
    const StrategyAdvice advice = AdviseStrategy(InputsOf(Stalled(1), exchange_s), kDrop);
    if (advice.plan.slipstream.value_or(SlipstreamPrediction{}).mode != SlipstreamMode::kFree) {
      continue;
    }
    const double gain = advice.current_s / advice.plan.slipstream->step_s;
    const bool gains = gain >= 1.05;
    ++(gains ? enough : too_little);
    EXPECT_EQ(advice.move, gains ? StrategyMove::kChange : StrategyMove::kKeep)
        << exchange_s << " s: " << gain;
  }
  EXPECT_GT(too_little, 0);
  EXPECT_GT(enough, 0);
}

TEST(StrategyAdviceTest, TooLittleMeasured) {
  DrawnTimes wish = Stalling(8, 0.02);
  wish.steps = 50;
  const StrategyAdvice advice = AdviseStrategy(InputsOf(Draw(wish)), kFree);
  EXPECT_EQ(advice.move, StrategyMove::kNotMeasured);
  EXPECT_EQ(advice.choice, kFree);
}

TEST(StrategyAdviceTest, StrategiesHaveNames) {
  EXPECT_EQ(DescribeStrategy(std::nullopt), "ddp");
  EXPECT_EQ(DescribeStrategy(kDrop), "slipstream drop");
}

}  // namespace
}  // namespace paceline
