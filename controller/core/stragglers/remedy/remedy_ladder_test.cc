// Ladders that are changed and taken back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(RemedyLadderTest, PlansOfTwoVersionsDoNotAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.facts.plan_version = PlanVersion(2);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
}

TEST(RemedyLadderTest, LadderChangesAfterTwoPlansThatAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(50, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.TellPlan(LadderAdvice::kKeep, {}, 0.3, {}, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(50, 0.3);
  EXPECT_EQ(job.orders, 0) << "they did not agree";
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  ASSERT_EQ(job.orders, 1);
  EXPECT_EQ(job.Last().kind, RemedyKind::kLadder);
  EXPECT_EQ(job.Last().ladder, kLadder);
  EXPECT_EQ(job.Last().plan->ladder, kLadder);
  EXPECT_NEAR(job.Last().predicted_s, 0.2, 1e-9);
  job.Done();
  EXPECT_EQ(job.Last().done_plan_version, PlanVersion(2));
  job.Train(130, 0.2);
  EXPECT_EQ(job.Last().state, DecisionState::kHelped);
}

TEST(RemedyLadderTest, PlansThatWantALadderAndNoneDoNotAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  for (int i = 0; i < 2; ++i) {
    job.TellPlan(LadderAdvice::kSynchronous, {}, 0.3, kLadder, 0.3);
    job.Train(100, 0.3);
  }
  job.TellPlan(LadderAdvice::kChange, {{4, LadderScope::kAll, 0}}, 0.2, kLadder, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.TellPlan(LadderAdvice::kChange, {{4, LadderScope::kAll, 0}}, 0.2, kLadder, 0.3);
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyLadderTest, AdviceOfALadderEndsWhenPlansWantNone) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.TellPlan(LadderAdvice::kSynchronous, {}, 0.3, kLadder, 0.3);
  EXPECT_THAT(job.Open(), IsEmpty());
}

TEST(RemedyLadderTest, LadderWaitsUntilEnoughIsLost) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.29, {}, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.29, {}, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.Train(50, 0.3);
  EXPECT_EQ(job.orders, 0) << "0.5 s of 0.6";
  job.Train(20, 0.3);
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyLadderTest, LadderWaitsForAPlanThatIsPending) {
  PolicyJob job(StragglerMode::kAdvise);
  job.facts.plan_pending = true;
  AddStalls(job);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.facts.plan_pending = false;
  job.Wait(absl::Seconds(1));
  EXPECT_THAT(job.Open(), SizeIs(1));
}

TEST(RemedyLadderTest, InModeAdviseBothAreAdvised) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  for (int i = 0; i < 2; ++i) job.TellPlan(LadderAdvice::kChange, kLadder, 0.1, {}, 0.15);
  job.Train(100, 0.15);
  EXPECT_THAT(job.Open(), SizeIs(2));
}

TEST(RemedyLadderTest, LadderDoesNotChangeShortlyBeforeTheEnd) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.facts.steps_left = 105;  // It costs 0.6 s, and gains 0.1 s a step.
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(100, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.facts.steps_left = 7;
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyLadderTest, PredictionIsTheMeasuredStepByThePlansRatio) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.33);  // The plan assumes 0.3.
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(50, 0.33);
  EXPECT_NEAR(job.Last().predicted_s, 0.22, 1e-9);
}

TEST(RemedyLadderTest, LadderThatDidNotHelpIsTakenBackOnce) {
  PolicyJob job(StragglerMode::kAuto);
  AddStalls(job);
  ASSERT_EQ(job.orders, 1);
  job.Done();
  job.Train(130, 0.29);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kDidNotHelp);
  ASSERT_EQ(job.orders, 2) << "at once";
  EXPECT_EQ(job.Last().undoes, 1);
  EXPECT_THAT(job.Last().ladder, IsEmpty());
  EXPECT_EQ(job.Last().former, kLadder);
  job.Done();
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kDone);
  for (int i = 0; i < 10; ++i) {
    job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
    job.Train(200, 0.3);
  }
  EXPECT_EQ(job.orders, 2) << "not again within the hour";
  job.Wait(absl::Hours(1));
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  EXPECT_EQ(job.orders, 3);
}

TEST(RemedyLadderTest, UndoIsAdviceInModeAdvise) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  job.Apply(1);
  job.Done();
  job.Train(130, 0.3);
  EXPECT_EQ(job.orders, 1);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().undoes, 1);
  job.Train(2000, 0.3);
  EXPECT_THAT(job.Open(), SizeIs(1));
  job.Apply(2);
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyLadderTest, UndoThatFailsIsForAPerson) {
  PolicyJob job(StragglerMode::kAuto);
  AddStalls(job);
  job.Done();
  job.Train(130, 0.3);
  job.Failed("rank 3 could not prepare it");
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("has failed: rank 3 could not prepare it"));
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyLadderTest, OneLadderPerWindow) {
  PolicyJob job(StragglerMode::kAuto);
  AddStalls(job);
  job.Done();
  job.Train(130, 0.2);
  ASSERT_EQ(job.stored.at(1).state, DecisionState::kHelped);
  const absl::Time changed = job.stored.at(1).since;
  const Ladder other = {{4, LadderScope::kAll, 0}};
  for (int i = 0; i < 200 && job.orders == 1; ++i) {
    job.TellPlan(LadderAdvice::kChange, other, 0.1, kLadder, 0.2);
    job.Train(20, 0.2);
  }
  EXPECT_EQ(job.orders, 2);
  EXPECT_GT(job.now.steady - changed, absl::Minutes(9));
}

TEST(RemedyLadderTest, WindowHoldsAfterARestartWhateverTheWallClockSays) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.now.wall += absl::Hours(1);
  job.Apply(1);
  job.Done();
  job.Train(400, 0.2);
  ASSERT_EQ(job.stored.at(1).state, DecisionState::kHelped);
  job.Restart(StragglerMode::kAdvise);
  AddStalls(job);
  EXPECT_THAT(job.Open(), IsEmpty());
  job.Wait(absl::Minutes(10));
  EXPECT_THAT(job.Open(), SizeIs(1));
}

TEST(RemedyLadderTest, LadderThatGainsNothingIsGivenUpWithoutHurry) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.1);
  for (int i = 0; i < 2; ++i) {
    job.TellPlan(LadderAdvice::kSynchronous, {}, 0.1, kLadder, 0.1);
    job.Train(100, 0.1);
  }
  EXPECT_EQ(job.orders, 0);
  job.TellPlan(LadderAdvice::kSynchronous, {}, 0.1, kLadder, 0.1);
  ASSERT_EQ(job.orders, 1);
  job.Done();
  job.Train(130, 0.102);
  EXPECT_EQ(job.Last().state, DecisionState::kHelped) << "it did no harm";
}

TEST(RemedyLadderTest, LadderAdviceIsWithdrawnWhenItIsNoLongerOne) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.TellPlan(LadderAdvice::kKeep, {}, 0.3, {}, 0.3);
  EXPECT_THAT(job.Open(), IsEmpty());
  EXPECT_EQ(job.Last().outcome, "as planned");
}

TEST(RemedyLadderTest, StragglerIsReplacedBeforeTheLadderChanges) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.checked_spares = 0;
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);  // Not due yet.
  for (int i = 0; i < 3; ++i) job.TellPlan(LadderAdvice::kChange, kLadder, 0.1, {}, 0.15);
  job.Train(100, 0.15);
  EXPECT_EQ(job.orders, 0);
  job.Tell(VerdictKind::kRecovered, 5);
  EXPECT_EQ(job.orders, 1);
  EXPECT_EQ(job.Last().kind, RemedyKind::kLadder);
}

TEST(RemedyLadderTest, NoLadderWhileAGroupEventIsFresh) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.3);
  job.Tell(VerdictKind::kGroup, -1);
  for (int i = 0; i < 3; ++i) job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.Wait(absl::Minutes(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyLadderTest, JobWithoutALadderIsToldOfOne) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.has_ladder = false;
  job.Train(300, 0.3);
  for (int i = 0; i < 5; ++i) {
    job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
    job.Train(100, 0.3);
  }
  EXPECT_EQ(job.orders, 0);
  ASSERT_THAT(job.policy->decisions(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("submit it with strategy hsgd"));
}

TEST(RemedyLadderTest, PlanOfAnotherVersionDoesNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.facts.plan_version = PlanVersion(2);
  job.Train(300, 0.3);
  LadderReport report;
  report.plan.advice = LadderAdvice::kChange;
  report.plan.step_s = 0.2;
  report.plan.current.step_s = 0.3;
  report.generation = Generation(1);
  report.plan_version = PlanVersion(1);
  for (int i = 0; i < 5; ++i) {
    job.Take(job.policy->OnLadderPlan(report, job.facts, job.now));
    job.Train(50, 0.3);
  }
  EXPECT_EQ(job.orders, 0);
}

}  // namespace
}  // namespace paceline
