// Jobs that leave their strategy to the controller, from measured steps to changes of strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

JobRequest AutoRequest(StragglerMode mode = StragglerMode::kAdvise) {
  JobRequest request = WatchedRequest(mode);
  request.strategy.is_auto = true;
  request.strategy.warmup_steps = 50;
  request.strategy_spec = "auto";
  request.spares = 0;
  return request;
}

// Makes steps as the job's strategy does: with Slipstream no rank waits for another.
void TrainOn(WatchedJob& watched, int64_t steps, const WatchedJob::OwnTime& own) {
  for (int64_t done = 0; done < steps; done += 10) {
    if (!watched.job().plan.slipstream.has_value()) {
      watched.Train(10, own);
      continue;
    }
    watched.TrainAs(10, [&](const std::vector<RankState>& ranks, int64_t step) {
      std::vector<StepTimes> row;
      for (const RankState& rank : ranks) {
        StepTimes times;
        times.total_s = own(rank.slot.node, step);
        times.forward_s = times.total_s / 3;
        times.backward_s = 2 * times.total_s / 3;
        row.push_back(times);
      }
      return row;
    });
  }
}

void TrainUntilOrdered(WatchedJob& watched, const WatchedJob::OwnTime& own) {
  while (Orders(watched).empty() && watched.step < 3000) TrainOn(watched, 10, own);
}

TEST(StrategyOrdersTest, AJobThatStallsGoesOnWithSlipstreamByItself) {
  WatchedJob watched(AutoRequest());
  EXPECT_EQ(watched.job().plan.strategy, "auto");
  TrainUntilOrdered(watched, Stalling);
  ASSERT_THAT(Orders(watched), SizeIs(1)) << "though the mode is advise";
  EXPECT_EQ(Orders(watched)[0]->kind, RemedyKind::kStrategy);
  EXPECT_EQ(DescribeRemedy(*Orders(watched)[0]), "strategy slipstream free");
  EXPECT_GE(Orders(watched)[0]->step, 128) << "so much is measured first";
  TrainOn(watched, 400, Stalling);
  const RemedyDecision& decision = *Orders(watched)[0];
  EXPECT_EQ(watched.job().generation, Generation(2));
  EXPECT_TRUE(watched.job().recovery.history.back().planned);
  EXPECT_EQ(watched.job().plan.strategy, "slipstream free");
  EXPECT_EQ(decision.state, DecisionState::kHelped) << decision.outcome;
  EXPECT_NEAR(decision.measured_s / decision.predicted_s, 1, 0.15) << decision.outcome;
  EXPECT_LT(decision.predicted_s, 0.6 * decision.before.seconds);
  TrainOn(watched, 2000, Stalling);
  EXPECT_THAT(Orders(watched), SizeIs(1)) << "it stays";
}

TEST(StrategyOrdersTest, AJobThatIsQuietAgainGoesBackAfterAWhile) {
  WatchedJob watched(AutoRequest());
  TrainUntilOrdered(watched, Stalling);
  TrainOn(watched, 600, Stalling);
  ASSERT_TRUE(watched.job().plan.slipstream.has_value());
  TrainOn(watched, 12000, Healthy);
  ASSERT_THAT(Orders(watched), SizeIs(2));
  const RemedyDecision& back = *Orders(watched)[1];
  EXPECT_EQ(DescribeRemedy(back), "strategy ddp");
  EXPECT_EQ(back.undoes, 0) << "it has helped, and is no longer needed";
  EXPECT_GE(back.made - Orders(watched)[0]->made, RemedyOptions().ladder_window);
  EXPECT_EQ(watched.job().plan.strategy, "auto");
  EXPECT_EQ(watched.job().generation, Generation(3));
  EXPECT_EQ(back.state, DecisionState::kHelped) << back.outcome;
}

TEST(StrategyOrdersTest, WhatDoesNotHelpIsTakenBackAndNotTriedAgain) {
  WatchedJob watched(AutoRequest());
  TrainUntilOrdered(watched, Stalling);
  ASSERT_THAT(Orders(watched), SizeIs(1));
  watched.Train(3000, Stalling);  // All wait for one another, whatever the plan says.
  ASSERT_THAT(Orders(watched), SizeIs(2));
  EXPECT_EQ(Orders(watched)[0]->state, DecisionState::kDidNotHelp) << Orders(watched)[0]->outcome;
  EXPECT_EQ(Orders(watched)[1]->undoes, 1);
  EXPECT_EQ(Orders(watched)[1]->state, DecisionState::kDone);
  EXPECT_FALSE(watched.job().plan.slipstream.has_value());
  TrainOn(watched, 3000, Stalling);
  EXPECT_THAT(Orders(watched), SizeIs(2));
}

TEST(StrategyOrdersTest, QuietJobsAreLeftAlone) {
  WatchedJob watched(AutoRequest());
  TrainOn(watched, 3000, Healthy);
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
  const auto& advice = watched.stragglers->Find(watched.id)->strategy_advice();
  ASSERT_TRUE(advice.has_value());
  EXPECT_THAT(advice->reason, HasSubstr("ddp: "));
}

TEST(StrategyOrdersTest, ABrakeHolds) {
  WatchedJob watched(AutoRequest());
  watched.Apply(AutomationPauseRequested{"ann", "hands off"});
  TrainOn(watched, 2000, Stalling);
  EXPECT_THAT(Orders(watched), IsEmpty());
  ASSERT_FALSE(watched.policy().decisions().empty());
  const RemedyDecision advised = watched.Last();
  EXPECT_EQ(advised.state, DecisionState::kAdvised);
  watched.ApplyAdvice(advised.id);
  TrainOn(watched, 200, Stalling);
  EXPECT_TRUE(watched.job().plan.slipstream.has_value()) << "a person may";
}

// An order that the job cannot follow would end it.
TEST(StrategyOrdersTest, SlipstreamIsNotOrderedForAModelThatItCannotTrain) {
  WatchedJob watched(AutoRequest(StragglerMode::kAuto));
  watched.no_slipstream = "body.weight is not float32";
  TrainOn(watched, 3000, Stalling);
  EXPECT_THAT(Orders(watched), IsEmpty());
  EXPECT_FALSE(watched.job().plan.slipstream.has_value());
  const auto& advice = watched.stragglers->Find(watched.id)->strategy_advice();
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->reason, "ddp stays: body.weight is not float32");
}

TEST(StrategyOrdersTest, ARankThatIsLostBeforeTheChangeCallsItOff) {
  WatchedJob watched(AutoRequest());
  watched.stops_at_order = true;
  while (watched.events.empty() && watched.step < 3000) watched.Train(10, Stalling);
  ASSERT_THAT(Orders(watched), SizeIs(1));
  ASSERT_TRUE(watched.job().plan.slipstream.has_value()) << "the change is under way";
  watched.plays = true;
  TrainerReport killed = watched.job().ranks[3].report;
  killed.state = TrainerState::kExited;
  killed.exit.emplace().failure = FailureKind::kSignal;
  watched.Apply(NodeReported{NodeName(watched.NodeOf(3)), {killed}});
  for (int i = 0; i < 6; ++i) watched.Report();
  EXPECT_EQ(watched.job().plan.strategy, "auto");
  EXPECT_EQ(watched.job().state, JobState::kRunning);
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.policy().Find(1)->outcome,
              StartsWith("the strategy could not be changed: rank 3 on "));
}

TEST(StrategyOrdersTest, SlowRanksOfSlipstreamAreReplacedForTheirOwnShare) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.strategy.slipstream = SlipstreamChoice();
  WatchedJob watched(request);
  const std::string slow = watched.NodeOf(5);
  TrainOn(watched, 3000, SlowFrom(slow, 200));
  ASSERT_THAT(Orders(watched), SizeIs(1));
  EXPECT_EQ(Orders(watched)[0]->kind, RemedyKind::kHotSwap);
  EXPECT_LT(Orders(watched)[0]->verdict.lost_share, 0.06) << "an eighth of a third";
  EXPECT_NE(watched.NodeOf(5), slow);
}

}  // namespace
}  // namespace paceline
