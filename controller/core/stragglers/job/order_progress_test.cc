#include "controller/core/stragglers/job/order_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Rank 0 is on a, and rank 1 on b, which an order of generation 1 and plan version 1 is about.
class OrderProgressTest : public ::testing::Test {
 protected:
  OrderProgressTest() {
    view_.job = &job_;
    view_.facts.running = true;
    view_.facts.plan_version = PlanVersion(1);
    view_.is_drained = [this](const NodeName&) { return drained_; };
  }

  OrderProgress ProgressOf(RemedyKind kind, int64_t undoes = 0) const {
    RemedyDecision decision;
    decision.kind = kind;
    decision.state = DecisionState::kOrdered;
    decision.undoes = undoes;
    decision.node = NodeName("b");
    decision.generation = Generation(1);
    decision.plan_version = PlanVersion(1);
    return paceline::ProgressOf(decision, view_);
  }
  OrderState StateOf(RemedyKind kind, int64_t undoes = 0) const {
    return ProgressOf(kind, undoes).state;
  }

  Job job_ = RunningJob();
  JobView view_;
  bool drained_ = false;
};

TEST_F(OrderProgressTest, LadderIsDoneWhenAllRanksTrainByIt) {
  EXPECT_EQ(ProgressOf(RemedyKind::kLadder).error, "the ladder could not be changed");
  job_.plan.version = PlanVersion(2);
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kUnderWay);
  view_.facts.plan_version = PlanVersion(2);
  view_.facts.plan_pending = true;
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kUnderWay);
  view_.facts.plan_pending = false;
  view_.facts.running = false;
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kUnderWay) << "ranks are being replaced";
  view_.facts.running = true;
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kDone);
}

TEST_F(OrderProgressTest, LadderThatARankCannotPrepareHasFailed) {
  job_.plan.version = PlanVersion(2);
  job_.ranks[1].report.plan.failed = PlanVersion(1);
  job_.ranks[1].report.plan.error = "that was another";
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kUnderWay);
  job_.ranks[1].report.plan.failed = PlanVersion(2);
  job_.ranks[1].report.plan.error = "no port is free";
  EXPECT_EQ(StateOf(RemedyKind::kLadder), OrderState::kFailed);
  EXPECT_EQ(ProgressOf(RemedyKind::kLadder).error, "no port is free");
}

TEST_F(OrderProgressTest, StrategyIsDoneWhenAllRanksTrainByIt) {
  EXPECT_EQ(ProgressOf(RemedyKind::kStrategy).error, "the strategy could not be changed");
  job_.next_plan = JobPlan();
  EXPECT_EQ(StateOf(RemedyKind::kStrategy), OrderState::kUnderWay);
  job_.next_plan.reset();
  job_.plan.version = PlanVersion(2);
  view_.facts.running = false;
  EXPECT_EQ(StateOf(RemedyKind::kStrategy), OrderState::kUnderWay);
  view_.facts.running = true;
  view_.facts.plan_pending = true;
  EXPECT_EQ(StateOf(RemedyKind::kStrategy), OrderState::kUnderWay);
  view_.facts.plan_version = PlanVersion(2);
  view_.facts.plan_pending = false;
  EXPECT_EQ(StateOf(RemedyKind::kStrategy), OrderState::kDone);
  job_.plan.slipstream = SlipstreamChoice();
  EXPECT_EQ(StateOf(RemedyKind::kStrategy), OrderState::kFailed) << "it was called off";
}

TEST_F(OrderProgressTest, SwapIsDoneInALaterGenerationWithoutTheNode) {
  job_.recovery.vacate[NodeName("b")] = "slow";
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kUnderWay);
  job_.generation = Generation(2);
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kUnderWay) << "it is there still";
  job_.ranks[1].slot.node = NodeName("c");
  view_.facts.running = false;
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kUnderWay);
  view_.facts.running = true;
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kDone);
}

TEST_F(OrderProgressTest, WhatNobodyAsksForAnyMoreHasFailed) {
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kFailed);
  EXPECT_THAT(ProgressOf(RemedyKind::kDrain).error, HasSubstr("taken back"));
  drained_ = true;
  EXPECT_EQ(StateOf(RemedyKind::kDrain), OrderState::kUnderWay);
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kFailed) << "that is no swap";
  EXPECT_EQ(StateOf(RemedyKind::kShrink), OrderState::kUnderWay) << "nothing is asked for";
  view_.facts.running = false;
  EXPECT_EQ(StateOf(RemedyKind::kHotSwap), OrderState::kUnderWay) << "not told yet";
}

TEST_F(OrderProgressTest, UndoOfADrainIsDoneUnlessAPersonHoldsTheNode) {
  EXPECT_EQ(StateOf(RemedyKind::kDrain, 7), OrderState::kDone);
  drained_ = true;
  EXPECT_EQ(ProgressOf(RemedyKind::kDrain, 7).error, "b is held by a person");
}

}  // namespace
}  // namespace paceline
