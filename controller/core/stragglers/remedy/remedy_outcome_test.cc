// What becomes of orders: checks, failures, undoing, and the start of another controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(RemedyOutcomeTest, IsCheckedAfterwards) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Done(0.25);
  EXPECT_EQ(job.Last().state, DecisionState::kChecking);
  EXPECT_EQ(job.Last().done_generation, Generation(2));
  job.Train(20, 9);  // The steps settle.
  job.Train(90, 0.1);
  EXPECT_EQ(job.Last().state, DecisionState::kChecking) << "too few steps";
  job.Train(10, 0.1);
  const RemedyDecision& decision = job.stored.at(1);
  EXPECT_EQ(decision.state, DecisionState::kHelped);
  EXPECT_NEAR(decision.measured_s, 0.1, 1e-9);
  EXPECT_EQ(decision.paid_s, 0.25);
  EXPECT_EQ(decision.ended, job.now.wall);
  EXPECT_THAT(decision.outcome, HasSubstr("0.1 s a step over 100 steps; 0.1 s predicted"));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyOutcomeTest, EachCheckHasItsOwnSteps) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.facts.checked_spares = 3;
  job.Done();
  job.Train(130, 0.1);
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kPersistent, 2);
  ASSERT_EQ(job.orders, 2);
  job.Done();
  job.Train(110, 0.1);
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kChecking);
  job.Train(20, 0.1);
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kHelped);
}

TEST(RemedyOutcomeTest, NothingIsBegunBeforeTheLastWasChecked) {
  RemedyOptions options;
  options.cool_down = absl::ZeroDuration();
  PolicyJob job(StragglerMode::kAuto, options);
  AddStraggler(job);
  job.facts.checked_spares = 5;
  job.Done();
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.05, {}, 0.1);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.05, {}, 0.1);
  job.Train(110, 0.1);
  EXPECT_EQ(job.orders, 1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kChecking);
  EXPECT_THAT(job.Open(), IsEmpty());
  job.Train(20, 0.1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kHelped);
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyOutcomeTest, SwapThatFailsIsNotRepeatedButEscalated) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Failed("the spare has died");
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);
  EXPECT_EQ(job.stored.at(1).outcome, "the spare has died");
  job.Train(1000, 0.15);  // The same generation goes on.
  EXPECT_EQ(job.orders, 2);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  job.Failed("no slot");
  job.Train(2000, 0.15);
  EXPECT_EQ(job.orders, 2);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("HOT_SWAP was tried in vain; DRAIN was tried in vain"));
}

TEST(RemedyOutcomeTest, SwapThatDidNotHelpIsForAPerson) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.facts.checked_spares = 4;
  job.Done();
  job.Train(130, 0.15);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kDidNotHelp);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("decision 1 did not help: 0.15 s a step"));
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(5000, 0.15);
  EXPECT_EQ(job.orders, 1);
  EXPECT_THAT(job.Open(), SizeIs(1));
}

TEST(RemedyOutcomeTest, SameRankSlowOnAnotherNodeIsNotTheNodesFault) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.facts.checked_spares = 4;
  job.Done();
  job.Train(60, 0.15);
  VerdictReport again = job.Report(VerdictKind::kPersistent, 5);
  again.node = NodeName("n9");
  job.Tell(again);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kDidNotHelp);
  EXPECT_EQ(job.stored.at(1).outcome, "rank 5 on n9 is slow again");
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_THAT(job.Last().reason, HasSubstr("decision 1 did not help"));
  job.Train(5000, 0.15);
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyOutcomeTest, DrainThatDidNotHelpIsTakenBack) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.checked_spares = 0;
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  ASSERT_EQ(job.Last().kind, RemedyKind::kDrain);
  job.Done();
  job.Train(130, 0.15);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kDidNotHelp);
  EXPECT_EQ(job.order, 2) << "at once";
  EXPECT_EQ(job.stored.at(2).undoes, 1);
  EXPECT_EQ(DescribeRemedy(job.stored.at(2)), "undo of decision 1: resume of n5");
  EXPECT_EQ(job.stored.at(3).kind, RemedyKind::kAskPerson);
  job.Take(job.policy->OnRemedyDone(2, 0, job.facts, job.now));
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kDone);
}

// Makes a drain that does not help, while the automation is paused.
void DrainInVain(PolicyJob& job) {
  job.facts.checked_spares = 0;
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  if (job.orders == 0) job.Apply(1);
  job.Done();
  job.facts.brake = "paused";
  job.Train(130, 0.15);
  ASSERT_EQ(job.stored.at(1).state, DecisionState::kDidNotHelp);
}

TEST(RemedyOutcomeTest, UndoOfADrainOutlivesTheGeneration) {
  PolicyJob job(StragglerMode::kAuto);
  ASSERT_NO_FATAL_FAILURE(DrainInVain(job));
  ASSERT_EQ(job.orders, 1);
  job.facts.generation = Generation(7);
  job.Train(10, 0.15);
  ASSERT_EQ(job.stored.at(2).state, DecisionState::kAdvised);
  EXPECT_EQ(job.policy->RefuseApply(2, job.facts), std::nullopt);
  job.facts.brake.clear();
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.order, 2);
}

TEST(RemedyOutcomeTest, DrainThatAPersonHasAppliedIsLeftToPeople) {
  PolicyJob job(StragglerMode::kAdvise);
  ASSERT_NO_FATAL_FAILURE(DrainInVain(job));
  job.facts.brake.clear();
  job.Take(job.policy->SetMode(StragglerMode::kAuto, job.facts, job.now));
  job.Train(100, 0.15);
  EXPECT_EQ(job.orders, 1);
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kAdvised);
  job.Apply(2);
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyOutcomeTest, CheckThatSomethingElseDisturbsStaysOpen) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Done();
  job.Train(50, 0.15);
  PolicyJob failure(StragglerMode::kAuto);
  AddStraggler(failure);
  failure.Done();
  failure.Train(50, 0.15);

  job.Tell(VerdictKind::kPersistent, 2);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kUnchecked);
  EXPECT_EQ(job.stored.at(1).outcome, "rank 2 on n2 became slow meanwhile");

  failure.facts.generation = Generation(3);
  failure.Train(500, 0.15);
  EXPECT_EQ(failure.stored.at(1).state, DecisionState::kUnchecked);
  EXPECT_THAT(failure.Open(), IsEmpty());
}

TEST(RemedyOutcomeTest, UncertainCheckEndsOpen) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Done();
  for (int i = 0; i < 60; ++i) {  // On average at the threshold.
    job.Train(10, 0.025);
    job.Train(10, 0.225);
  }
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kUnchecked);
  EXPECT_THAT(job.stored.at(1).outcome, HasSubstr("not certain"));
}

TEST(RemedyOutcomeTest, OrdersAndChecksDoNotLastForEver) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  EXPECT_EQ(job.policy->NextDeadline(), job.now.steady + absl::Minutes(15));
  job.Wait(absl::Minutes(15));
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);
  EXPECT_EQ(job.stored.at(1).outcome, "nothing was heard of it for 15m");
  const int64_t ignored = job.policy->ignored();
  job.Take(job.policy->OnRemedyDone(1, 1, job.facts, job.now));
  EXPECT_EQ(job.policy->ignored(), ignored + 1) << "too late";
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);

  PolicyJob idle(StragglerMode::kAuto);
  AddStraggler(idle);
  idle.Done();
  idle.Wait(absl::Minutes(60));
  EXPECT_EQ(idle.stored.at(1).state, DecisionState::kUnchecked);
}

TEST(RemedyOutcomeTest, LongStepsAreCheckedForLonger) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 60);
  job.Train(200, 90);
  job.Tell(VerdictKind::kPersistent, 5);
  ASSERT_EQ(job.orders, 1);
  job.Done();
  EXPECT_EQ(job.policy->NextDeadline(), job.now.steady + absl::Seconds(2 * 1020 * 90));
  for (int i = 0; i < 12; ++i) {
    job.Train(10, 60);
    job.Wait(absl::ZeroDuration());
  }
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kHelped);
}

TEST(RemedyOutcomeTest, PersonMayGoOnWhileACheckIsOpen) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Apply(1);
  job.facts.checked_spares = 4;
  job.Done();
  job.Train(200, 0.12);
  job.Tell(VerdictKind::kPersistent, 2);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.Apply(job.Last().id);
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyOutcomeTest, RestartGoesOnWithWhatIsUnderWay) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Restart(StragglerMode::kAuto);
  job.Train(100, 0.15);
  EXPECT_EQ(job.orders, 1) << "not ordered twice";
  job.Done();
  job.Train(60, 0.1);
  job.Restart(StragglerMode::kAuto);
  job.Train(110, 0.1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kChecking) << "the check starts over";
  job.Train(20, 0.1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kHelped);
}

TEST(RemedyOutcomeTest, RestartWithdrawsAdviceAndRests) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Restart(StragglerMode::kAdvise);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kWithdrawn);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_EQ(job.Last().id, 2);

  PolicyJob acting(StragglerMode::kAuto);
  AddStraggler(acting);
  acting.Done();
  acting.Train(130, 0.1);
  acting.facts.checked_spares = 2;
  acting.Restart(StragglerMode::kAuto);
  acting.Train(200, 0.15);  // 30 s.
  acting.Tell(VerdictKind::kPersistent, 3);
  EXPECT_EQ(acting.orders, 1);
  acting.Wait(absl::Seconds(31));
  EXPECT_EQ(acting.orders, 2);
}

TEST(RemedyOutcomeTest, RestartForgetsNoFailure) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Failed("the spare has died");
  job.Restart(StragglerMode::kAuto);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
}

TEST(RemedyOutcomeTest, RestartKeepsTheUndoThatIsAdvised) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  job.Apply(1);
  job.Done();
  job.Train(130, 0.3);
  ASSERT_EQ(job.Last().undoes, 1);
  job.Restart(StragglerMode::kAdvise);
  job.Train(50, 0.3);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.policy->RefuseApply(2, job.facts), std::nullopt);
}

TEST(RemedyOutcomeTest, RestartKeepsTheLaddersWindow) {
  PolicyJob job(StragglerMode::kAuto);
  AddStalls(job);
  job.Done();
  job.Train(130, 0.2);
  job.Restart(StragglerMode::kAuto);
  job.Train(300, 0.2);
  for (int i = 0; i < 10; ++i) {
    job.TellPlan(LadderAdvice::kChange, {{4, LadderScope::kAll, 0}}, 0.1, kLadder, 0.2);
    job.Train(100, 0.2);
  }
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyOutcomeTest, OldDecisionsAreForgotten) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Apply(1);
  job.Failed("the spare has died");
  for (int i = 0; i < 150; ++i) {
    job.Tell(VerdictKind::kPersistent, 5);
    job.Tell(VerdictKind::kRecovered, 5);
  }
  EXPECT_EQ(job.policy->decisions().size(), kDecisionsKept);
  EXPECT_EQ(job.stored.size(), kDecisionsKept);
  EXPECT_EQ(job.stored.count(2), 0u);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed)
      << "of which something is to be learned";
}

}  // namespace
}  // namespace paceline
