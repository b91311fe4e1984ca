#include "controller/core/stragglers/slipstream/strategy_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

StrategyInputs InputsOf(OwnTimes times) {
  StrategyInputs inputs;
  inputs.ladder.homes = Homes(times.ranks, 1, times.ranks);
  inputs.ladder.times = std::move(times);
  inputs.ladder.costs.Add(inputs.ladder.times.ranks, 0.005);
  inputs.ladder.step = 5000;
  inputs.ladder.steps = 20000;
  inputs.slipstream.header_s = 0.0005;
  return inputs;
}

SlipstreamMode ModeOf(const StrategyPlan& plan) {
  return plan.slipstream.value_or(SlipstreamPrediction()).mode;
}

TEST(StrategyPlannerTest, StallsGetTheModeOfTheOptimizer) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  const StrategyPlan sgd = PlanStrategy(inputs);
  EXPECT_EQ(sgd.why, StrategyWhy::kStalls);
  EXPECT_EQ(ModeOf(sgd), SlipstreamMode::kFree);
  EXPECT_GT(sgd.speedup, 9);
  EXPECT_THAT(sgd.reason, AllOf(HasSubstr("free: "), HasSubstr("; the ladder ")));
  inputs.is_adaptive = true;
  const StrategyPlan adamw = PlanStrategy(inputs);
  EXPECT_EQ(adamw.why, StrategyWhy::kStalls);
  EXPECT_EQ(ModeOf(adamw), SlipstreamMode::kDrop);
  EXPECT_NEAR(adamw.speedup / sgd.speedup, 0.82, 0.05);
}

TEST(StrategyPlannerTest, AllStrategiesAreToldOfTheSameSteps) {
  const StrategyPlan plan = PlanStrategy(InputsOf(Draw(Stalling(64, 0.02))));
  ASSERT_THAT(plan.slipstreams, SizeIs(4));
  ASSERT_TRUE(plan.ladder.has_value());
  const double sync_s = plan.slipstreams[0].step_s, drop_s = plan.slipstreams[1].step_s,
               free_s = plan.slipstreams[2].step_s, pause_s = plan.slipstreams[3].step_s;
  EXPECT_LT(plan.ideal_s, free_s);
  EXPECT_LT(free_s, drop_s);
  EXPECT_LT(pause_s, plan.ladder->step_s);
  EXPECT_LT(drop_s, plan.ladder->step_s);
  EXPECT_LT(plan.ladder->step_s, plan.ddp.step_s);
  EXPECT_LT(plan.ddp.step_s, sync_s);  // ddp sends gradients during the backward pass.
  EXPECT_EQ(plan.step_s, free_s);
}

TEST(StrategyPlannerTest, QuietRanksStaySynchronous) {
  for (const bool is_adaptive : {false, true}) {
    for (const double share : {0.0, 0.0001}) {
      StrategyInputs inputs = InputsOf(Draw(Stalling(8, share)));
      inputs.is_adaptive = is_adaptive;
      const StrategyPlan plan = PlanStrategy(inputs);
      EXPECT_EQ(plan.why, StrategyWhy::kQuiet) << plan.reason;
      EXPECT_FALSE(plan.slipstream.has_value());
      EXPECT_EQ(plan.step_s, plan.ddp.step_s);
      EXPECT_EQ(plan.speedup, 1);
    }
  }
}

TEST(StrategyPlannerTest, NothingIsGainedWhereCopiesCostWhatStallsDo) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(8, 0.005, 0.2)));
  EXPECT_EQ(PlanStrategy(inputs).why, StrategyWhy::kStalls);
  inputs.is_adaptive = true;
  inputs.slipstream.pass_s = 0.01;  // There are four a step in modes of gradients.
  EXPECT_EQ(PlanStrategy(inputs).why, StrategyWhy::kQuiet);
}

TEST(StrategyPlannerTest, SlowRankGetsSlipstreamAndNoLadder) {
  const StrategyPlan plan = PlanStrategy(InputsOf(Draw(Slowed(5, 1.5))));
  EXPECT_EQ(plan.why, StrategyWhy::kStalls);
  EXPECT_NEAR(plan.speedup, 1.5, 0.03);
  EXPECT_LE(plan.ladder->speedup, 1.0);
}

TEST(StrategyPlannerTest, FreezingStallsGetLongWindows) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  inputs.freezing_share = 0.05;
  EXPECT_EQ(PlanStrategy(inputs).why, StrategyWhy::kStalls);
  inputs.freezing_share = 1;
  const StrategyPlan plan = PlanStrategy(inputs);
  EXPECT_EQ(plan.why, StrategyWhy::kFreezing);
  EXPECT_GT(plan.slipstream->window_steps, 31);
  EXPECT_GT(plan.speedup, 5);
  EXPECT_LT(plan.slipstreams[1].share, 0.2) << "drop waits for each of them";
}

TEST(StrategyPlannerTest, AdamWWithDearOrFrozenCollectivesGetsShortWindows) {
  StrategyInputs dear = InputsOf(Draw(Stalling(64, 0.02)));
  dear.is_adaptive = true;
  dear.slipstream.reduce_s = 0.03;
  StrategyInputs frozen = InputsOf(Draw(Stalling(64, 0.02)));
  frozen.is_adaptive = true;
  frozen.freezing_share = 0.05;
  for (const StrategyInputs& inputs : {dear, frozen}) {
    const StrategyPlan plan = PlanStrategy(inputs);
    EXPECT_EQ(plan.why, StrategyWhy::kDear) << plan.reason;
    EXPECT_EQ(ModeOf(plan), SlipstreamMode::kFree);
    EXPECT_LT(plan.slipstream->window_steps, 4.001);
  }
}

TEST(StrategyPlannerTest, TheLadderInUseDoesNotMatter) {
  StrategyInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  const StrategyPlan before = PlanStrategy(inputs);
  inputs.ladder.current = {{8, LadderScope::kAll, 0}};
  const StrategyPlan after = PlanStrategy(inputs);
  EXPECT_EQ(before.reason, after.reason);
}

TEST(StrategyPlannerTest, TooLittleMeasured) {
  DrawnTimes wish = Stalling(8, 0.02);
  wish.steps = 50;
  EXPECT_EQ(PlanStrategy(InputsOf(Draw(wish))).why, StrategyWhy::kUnmeasured);
  OwnTimes nothing = Draw(Stalling(8, 0));
  std::fill(nothing.seconds.begin(), nothing.seconds.end(), 0.0F);
  nothing.seconds.back() = 1;
  const StrategyPlan plan = PlanStrategy(InputsOf(std::move(nothing)));
  EXPECT_EQ(plan.why, StrategyWhy::kUnmeasured);
  EXPECT_THAT(plan.reason, HasSubstr("no time"));
}

}  // namespace
}  // namespace paceline
