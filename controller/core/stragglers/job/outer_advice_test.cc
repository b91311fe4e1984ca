// Jobs whose exchanges take long, from measured steps to advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Steps of 100 ms on each rank, and an exchange of gradients.
WatchedJob::Row Exchanging(double seconds) {
  return [=](const std::vector<RankState>& ranks, int64_t) {
    StepTimes times;
    times.forward_s = 0.03;
    times.backward_s = 0.07;
    times.communication_s = seconds;
    times.total_s = 0.1 + seconds;
    times.sent_bytes = 1e8;
    return std::vector<StepTimes>(ranks.size(), times);
  };
}

// The advice of outer steps, whatever became of it.
std::vector<RemedyDecision> OuterSteps(const WatchedJob& watched) {
  std::vector<RemedyDecision> found;
  for (const RemedyDecision& decision : watched.policy().decisions()) {
    if (decision.kind == RemedyKind::kOuterStep) found.push_back(decision);
  }
  return found;
}

// Beyond the first twentieth of its steps.
void BeginLate(WatchedJob& watched) {
  watched.step = 6000;
  for (int i = 0; i < 3; ++i) watched.Report();
}

TEST(OuterAdviceTest, AJobThatMostlyExchangesIsAdvisedUntilItNoLongerDoes) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  BeginLate(watched);
  watched.TrainAs(400, Exchanging(0.156));
  ASSERT_THAT(OuterSteps(watched), SizeIs(1));
  const RemedyDecision advised = OuterSteps(watched)[0];
  EXPECT_EQ(advised.state, DecisionState::kAdvised);
  EXPECT_THAT(advised.reason, HasSubstr("61 % of a step is exchange"));
  EXPECT_THAT(advised.reason, HasSubstr("a mean every 50 steps with an outer step: predicted 2.4 "
                                        "times the steps/s, 2 % of the bytes"));
  EXPECT_THAT(advised.reason, HasSubstr("strategy has no ladder")) << "it is ddp";
  EXPECT_NEAR(advised.before.seconds / advised.predicted_s, 2.435, 0.01);
  watched.TrainAs(400, Exchanging(0.01));
  ASSERT_THAT(OuterSteps(watched), SizeIs(1));
  EXPECT_EQ(OuterSteps(watched)[0].state, DecisionState::kWithdrawn);
  EXPECT_THAT(watched.events, IsEmpty());
}

TEST(OuterAdviceTest, AJobWithALadderIsToldTheCommand) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.strategy.has_ladder = true;
  request.strategy_spec = "synchronous";
  WatchedJob watched(request);
  BeginLate(watched);
  watched.TrainAs(400, Exchanging(0.156));
  ASSERT_THAT(OuterSteps(watched), SizeIs(1));
  EXPECT_THAT(OuterSteps(watched)[0].reason,
              HasSubstr("`paceline job ladder job-1 50:all:nesterov/0.7/0.9`"));
}

TEST(OuterAdviceTest, AJobThatLeavesItsStrategyToTheControllerIsOnlyAdvised) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.strategy.is_auto = true;
  request.strategy.warmup_steps = 50;
  request.strategy_spec = "auto";
  request.spares = 0;
  WatchedJob watched(request);
  watched.no_slipstream = "no such model";  // So that it stays ddp.
  for (int i = 0; i < 3; ++i) watched.Report();
  watched.TrainAs(600, Exchanging(0.156));
  ASSERT_THAT(OuterSteps(watched), SizeIs(1));
  EXPECT_EQ(OuterSteps(watched)[0].state, DecisionState::kAdvised);
  EXPECT_THAT(watched.events, IsEmpty());
}

// Short transfers: random stalls, a rank that is slow, nothing at all.
TEST(OuterAdviceTest, NoneWhereBandwidthIsNotTheLimit) {
  for (const WatchedJob::OwnTime& own :
       {WatchedJob::OwnTime(Healthy), WatchedJob::OwnTime(Stalling), SlowFrom("n02", 0, 3),
        SlowFrom("n02", 6200, 3)}) {
    WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
    BeginLate(watched);
    watched.Train(800, own);
    EXPECT_THAT(OuterSteps(watched), IsEmpty());
  }
}

// A script's ranks wait for one another within their backward passes.
TEST(OuterAdviceTest, NoneForAScriptWhoseExchangesNobodyMeasures) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.recovery = {};
  request.spares = 0;
  request.command.emplace();
  WatchedJob watched(request);
  BeginLate(watched);
  watched.TrainAs(400, Exchanging(0.156));
  EXPECT_THAT(OuterSteps(watched), IsEmpty());
}

}  // namespace
}  // namespace paceline
