#include "slipstream/round_state.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Mode = SlipstreamMode;

SlipstreamPlan Plan(int64_t version, Mode mode) {
  SlipstreamPlan plan;
  plan.version = version;
  plan.mode = mode;
  return plan;
}

RoundState Four(Mode mode) {
  RoundState state;
  state.total = RankSteps(4);
  state.target_steps = 1000;
  state.plan = Plan(1, mode);
  return state;
}

RoundSums Steps(int64_t steps) {
  RoundSums sums;
  sums.steps = steps;
  return sums;
}

RoundSums AllHold(int64_t ahead) {
  RoundSums sums;
  sums.plan_ahead = ahead;
  return sums;
}

TEST(RoundStateTest, ARoundAddsItsSteps) {
  RoundState state = Four(Mode::kFree);
  FinishRound(Steps(7), state.plan, &state);
  EXPECT_EQ(state.round, 1);
  EXPECT_EQ(state.total, RankSteps(4, 1, 3));
}

TEST(RoundStateTest, APlanThatNeedsNoSettlingHoldsFromTheNextRound) {
  for (const auto& [from, to] : {std::pair{Mode::kFree, Mode::kPause},
                                 {Mode::kPause, Mode::kFree},
                                 {Mode::kSync, Mode::kFree},
                                 {Mode::kDrop, Mode::kSync},
                                 {Mode::kPause, Mode::kDrop},
                                 {Mode::kFree, Mode::kFree}}) {
    RoundState state = Four(from);
    EXPECT_TRUE(FinishRound(AllHold(1), Plan(2, to), &state).takes_up_plan);
    EXPECT_EQ(state.plan.version, 2);
    EXPECT_EQ(state.plan.mode, to);
    EXPECT_FALSE(state.settles);
  }
}

TEST(RoundStateTest, FromFreeToGradientsARoundSettlesAndAveragesTheState) {
  RoundState state = Four(Mode::kFree);
  const RoundOutcome agreed = FinishRound(AllHold(1), Plan(2, Mode::kDrop), &state);
  EXPECT_FALSE(agreed.takes_up_plan);
  EXPECT_FALSE(agreed.averages_state);
  EXPECT_TRUE(state.settles);
  EXPECT_EQ(state.plan.mode, Mode::kFree);
  const RoundOutcome settled = FinishRound(Steps(1), Plan(2, Mode::kDrop), &state);
  EXPECT_TRUE(settled.takes_up_plan);
  EXPECT_TRUE(settled.averages_state);
  EXPECT_EQ(state.plan.mode, Mode::kDrop);
  EXPECT_FALSE(state.settles);
}

TEST(RoundStateTest, TheStateIsAveragedInEachPauseOnlyIfThePlanSaysSo) {
  for (const Mode mode : {Mode::kFree, Mode::kPause, Mode::kDrop}) {
    RoundState state = Four(mode);
    EXPECT_FALSE(FinishRound(Steps(1), state.plan, &state).averages_state);
    state.plan.averages_state = true;
    EXPECT_EQ(FinishRound(Steps(1), state.plan, &state).averages_state, mode == Mode::kPause);
  }
}

TEST(RoundStateTest, ANewerPlanReplacesOneThatWaitsForTheRanksToSettle) {
  RoundState state = Four(Mode::kFree);
  FinishRound(AllHold(1), Plan(2, Mode::kDrop), &state);
  EXPECT_TRUE(FinishRound(AllHold(2), Plan(3, Mode::kSync), &state).takes_up_plan);
  EXPECT_EQ(state.plan.version, 3);
}

TEST(RoundStateTest, TheTrainingEndsSettled) {
  RoundState state = Four(Mode::kFree);
  state.target_steps = 2;
  EXPECT_FALSE(FinishRound(Steps(9), state.plan, &state).ends);
  EXPECT_TRUE(state.settles);
  EXPECT_TRUE(FinishRound(Steps(3), state.plan, &state).ends);
  EXPECT_EQ(state.total, RankSteps(4, 3, 0)) << "what was under way is in it";

  RoundState drop = Four(Mode::kDrop);
  drop.target_steps = 2;
  EXPECT_FALSE(FinishRound(Steps(7), drop.plan, &drop).ends);
  EXPECT_TRUE(FinishRound(Steps(1), drop.plan, &drop).ends) << "gradients are never under way";
}

TEST(RoundStateTest, AGenerationIsLeftSettled) {
  RoundState state = Four(Mode::kFree);
  RoundSums leave;
  leave.leave_ahead = 1;
  EXPECT_FALSE(FinishRound(leave, state.plan, &state).ends);
  EXPECT_TRUE(FinishRound(Steps(2), state.plan, &state).ends);
}

TEST(RoundStateTest, ASaveOrderMakesAStopOfTheNextSettledRound) {
  RoundSums order;
  order.save_ahead = 2;
  RoundState state = Four(Mode::kFree);
  FinishRound(order, state.plan, &state);
  EXPECT_FALSE(state.stands);
  EXPECT_TRUE(state.settles);
  FinishRound(Steps(1), state.plan, &state);
  EXPECT_TRUE(state.stands);
  EXPECT_FALSE(state.settles);
  EXPECT_EQ(state.due.save_order, 2);
  FinishRound(Steps(1), state.plan, &state);
  EXPECT_FALSE(state.stands);
  EXPECT_FALSE(state.settles);
  EXPECT_FALSE(state.due.any());

  for (const Mode mode : {Mode::kPause, Mode::kDrop, Mode::kSync}) {
    RoundState settled = Four(mode);
    FinishRound(order, settled.plan, &settled);
    EXPECT_TRUE(settled.stands) << "at once";
    EXPECT_FALSE(settled.settles);
  }
}

TEST(RoundStateTest, AStopIsDueWhenAMultipleOfAPeriodIsPassed) {
  RoundState state = Four(Mode::kDrop);
  state.periods = {5, 3};
  FinishRound(Steps(4 * 2 + 3), state.plan, &state);
  EXPECT_FALSE(state.stands);
  FinishRound(Steps(1), state.plan, &state);
  EXPECT_TRUE(state.stands);
  EXPECT_EQ(state.due, (StopReasons{false, true, 0}));
  FinishRound(Steps(4 * 8), state.plan, &state);
  EXPECT_EQ(state.due, (StopReasons{true, true, 0})) << "several at once";
  FinishRound(Steps(1), state.plan, &state);
  EXPECT_FALSE(state.stands);
}

TEST(RoundStateTest, WhatBecomesDueWhileTheRanksSettleIsDoneAtTheSameStop) {
  RoundState state = Four(Mode::kFree);
  state.periods = {2, 3};
  FinishRound(Steps(4 * 2), state.plan, &state);
  EXPECT_TRUE(state.settles);
  FinishRound(Steps(4), state.plan, &state);
  EXPECT_TRUE(state.stands);
  EXPECT_EQ(state.due, (StopReasons{true, true, 0}));
}

TEST(RoundStateTest, AtTheEndNobodyStopsAndWhatWasDueIsTold) {
  RoundState state = Four(Mode::kDrop);
  state.target_steps = 2;
  state.periods = {2, 0};
  EXPECT_TRUE(FinishRound(Steps(8), state.plan, &state).ends);
  EXPECT_FALSE(state.stands);
  EXPECT_TRUE(state.due.evaluates);
}

TEST(RoundStateTest, AnotherGenerationMakesTheStopAgain) {
  RoundState state = Four(Mode::kFree);
  state.periods = {2, 0};
  FinishRound(Steps(8), state.plan, &state);
  FinishRound(Steps(0), state.plan, &state);
  ASSERT_TRUE(state.stands);
  RoundState next = ForGeneration(state, 2, 3);
  EXPECT_FALSE(next.stands);
  EXPECT_TRUE(next.settles);
  FinishRound(Steps(1), next.plan, &next);
  EXPECT_TRUE(next.stands);
  EXPECT_TRUE(next.due.evaluates);
}

TEST(RoundStateTest, ItHasStartedWhenTheFirstStepsOfAllRanksAreOver) {
  RoundState state = Four(Mode::kFree);
  RoundSums sums = Steps(40);
  sums.started = 3;
  FinishRound(sums, state.plan, &state);
  EXPECT_FALSE(state.started);
  sums.started = 4;
  FinishRound(sums, state.plan, &state);
  EXPECT_TRUE(state.started);
  FinishRound(RoundSums(), state.plan, &state);
  EXPECT_TRUE(ForGeneration(state, 2, 5).started);
}

TEST(RoundStateTest, WhatHasEndedStaysSoInAnotherGeneration) {
  for (const Mode mode : {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause}) {
    RoundState state = Four(mode);
    state.target_steps = 1;
    EXPECT_FALSE(state.has_ended());
    FinishRound(Steps(4), state.plan, &state);
    if (mode == Mode::kFree) {
      EXPECT_FALSE(state.has_ended()) << "the ranks have to settle";
      EXPECT_TRUE(ForGeneration(state, 2, 3).settles);
      FinishRound(Steps(0), state.plan, &state);
    }
    EXPECT_TRUE(state.has_ended());
    EXPECT_TRUE(ForGeneration(state, 2, 3).has_ended());
  }
}

TEST(RoundStateTest, AnotherGenerationKeepsTheProgressAndForgetsToLeave) {
  RoundState state = Four(Mode::kFree);
  state.total = RankSteps(4, 10, 2);
  state.round = 77;
  state.leaves = state.settles = true;
  state.next_plan = Plan(2, Mode::kDrop);
  for (int i = 0; i < 50; ++i) state.window.Add({absl::Seconds(1), {}, {}, true});
  const RoundState next = ForGeneration(state, 5, 2);
  EXPECT_EQ(next.total, RankSteps(2, 10, 1));
  EXPECT_EQ(next.round, 77);
  EXPECT_EQ(next.generation, 5);
  EXPECT_FALSE(next.leaves);
  EXPECT_EQ(next.window.frozen_steps(), 0) << "who froze may be gone";
  EXPECT_TRUE(next.settles) << "the plan that was agreed on still waits";
  state.next_plan.reset();
  EXPECT_FALSE(ForGeneration(state, 5, 2).settles);
}

}  // namespace
}  // namespace paceline
