#include "controller/core/stragglers/remedy_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Ladder kLadder = {{2, LadderScope::kSize, 2}, {8, LadderScope::kAll, 0}};

// Rank 5 has made the job's steps half as long again for 200 steps, and is found.
void AddStraggler(PolicyJob& job) {
  job.Train(300, 0.1);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
}

// Random stalls, and a ladder that takes them to two thirds.
void AddStalls(PolicyJob& job) {
  job.Train(300, 0.3);
  for (int i = 0; i < 2; ++i) {
    job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
    job.Train(50, 0.3);
  }
}

TEST(RemedyPolicyTest, PersistentStragglerIsReplacedByASpare) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  ASSERT_EQ(job.orders, 1);
  const RemedyDecision& decision = job.Last();
  EXPECT_EQ(decision.id, job.order);
  EXPECT_EQ(decision.kind, RemedyKind::kHotSwap);
  EXPECT_EQ(decision.state, DecisionState::kOrdered);
  EXPECT_TRUE(decision.automatic);
  EXPECT_EQ(decision.rank, 5);
  EXPECT_EQ(decision.node, NodeName("n5"));
  EXPECT_EQ(decision.generation, Generation(1));
  EXPECT_DOUBLE_EQ(decision.before.seconds, 0.15) << "since it is slow";
  EXPECT_NEAR(decision.predicted_s, 0.1, 1e-9);
  EXPECT_NEAR(decision.lost_s, 150 * 0.15 / 3, 1e-9);
  EXPECT_NEAR(decision.cost_s, 0.3, 1e-9);
  EXPECT_THAT(decision.options, SizeIs(2));
  EXPECT_THAT(decision.reason, HasSubstr("rank 5 on n5 takes 1.50 x"));
}

TEST(RemedyPolicyTest, IsCheckedAfterwards) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Done(0.25);
  EXPECT_EQ(job.Last().state, DecisionState::kChecking);
  EXPECT_EQ(job.Last().done_generation, Generation(2));
  job.Train(20, 9);  // They settle.
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

TEST(RemedyPolicyTest, EachCheckHasItsOwnSteps) {
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

TEST(RemedyPolicyTest, SuspectsAndTransientsAreLeftAlone) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.15);
  job.Tell(VerdictKind::kSuspect, 5);
  job.Train(300, 0.15);
  job.Tell(VerdictKind::kTransient, 5);
  job.Train(300, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
}

TEST(RemedyPolicyTest, ModeOffDecidesNothing) {
  PolicyJob job(StragglerMode::kOff);
  AddStraggler(job);
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
}

TEST(RemedyPolicyTest, ModeAdviseWaitsForAPerson) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.orders, 0);
  ASSERT_THAT(job.Open(), SizeIs(1)) << "told once";
  EXPECT_EQ(job.policy->RefuseApply(1, job.facts), std::nullopt);
  job.Apply(1);
  EXPECT_EQ(job.order, 1);
  EXPECT_EQ(job.Last().by, "ann");
  EXPECT_FALSE(job.Last().automatic);
  job.Done();
  job.Train(200, 0.1);
  EXPECT_EQ(job.Last().state, DecisionState::kHelped) << "checked just the same";
}

TEST(RemedyPolicyTest, ModeCanChange) {
  PolicyJob job(StragglerMode::kOff);
  AddStraggler(job);
  job.Take(job.policy->SetMode(StragglerMode::kAdvise, job.facts, job.now));
  EXPECT_THAT(job.Open(), SizeIs(1)) << "what was found meanwhile counts";
  job.Take(job.policy->SetMode(StragglerMode::kOff, job.facts, job.now));
  EXPECT_EQ(job.Last().state, DecisionState::kWithdrawn);
  job.Take(job.policy->SetMode(StragglerMode::kAuto, job.facts, job.now));
  EXPECT_EQ(job.orders, 1);
  EXPECT_EQ(job.policy->mode(), StragglerMode::kAuto);
}

TEST(RemedyPolicyTest, WaitsUntilAsMuchIsLostAsTheRemedyCosts) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.checked_spares = 0;  // A cold start: 30 s.
  job.Train(300, 0.1);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "7.5 s";
  job.Train(440, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "29.5 s";
  job.Train(10, 0.15);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  EXPECT_EQ(job.orders, 1);
  EXPECT_GE(job.Last().lost_s, 30 - 1e-9);
}

TEST(RemedyPolicyTest, DoesNothingShortlyBeforeTheEnd) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.15);
  job.facts.steps_left = 5;  // Of which the straggler takes 1.7; a swap takes 2.
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.facts.steps_left = 7;
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, VerdictsOfAnotherGenerationOrEpochOrOfMaskedStepsDoNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.15);
  const VerdictReport good = job.Report(VerdictKind::kPersistent, 5);
  VerdictReport bad = good;
  bad.generation = Generation(0);
  job.Tell(bad);
  bad = good;
  bad.generation = Generation(2);
  job.Tell(bad);
  bad = good;
  bad.epoch = PlanEpoch(0);
  job.Tell(bad);
  bad = good;
  bad.masked = true;
  job.Tell(bad);
  bad = good;
  bad.verdict.lost_share = std::nan("");
  job.Tell(bad);
  bad = good;
  bad.verdict.lost_share = 1.5;
  job.Tell(bad);
  bad = good;
  bad.verdict.rank = 8;
  job.Tell(bad);
  bad = good;
  bad.verdict.rank = -1;
  job.Tell(bad);
  bad = good;
  bad.verdict.slowdown = HUGE_VAL;
  job.Tell(bad);
  bad = good;
  bad.verdict.since_step = bad.verdict.step + 1;
  job.Tell(bad);
  EXPECT_EQ(job.policy->ignored(), 10);
  EXPECT_THAT(job.policy->cases(), IsEmpty());
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.Tell(good);
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, NewGenerationOrEpochWithdrawsAdvice) {
  for (const bool by_epoch : {false, true}) {
    PolicyJob job(StragglerMode::kAdvise);
    AddStraggler(job);
    if (by_epoch) {
      job.facts.epoch = PlanEpoch(2);
    } else {
      job.facts.generation = Generation(2);
    }
    EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "ADVICE_CLOSED");
    job.Wait(absl::Seconds(1));
    EXPECT_EQ(job.Last().state, DecisionState::kWithdrawn);
    EXPECT_THAT(job.policy->cases(), IsEmpty());
    job.Train(1000, 0.15);
    EXPECT_THAT(job.policy->decisions(), SizeIs(1)) << "nothing is known of the new one";
  }
}

TEST(RemedyPolicyTest, StepsOfAnEarlierGenerationAreNotWhatIsBefore) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.3);
  job.facts.generation = Generation(2);
  job.Train(30, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_EQ(job.orders, 0) << "three windows";
  job.Train(500, 0.15);
  ASSERT_EQ(job.orders, 1);
  EXPECT_NEAR(job.Last().before.seconds, 0.15, 1e-9);
}

TEST(RemedyPolicyTest, PlansOfTwoEpochsDoNotAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.facts.epoch = PlanEpoch(2);
  job.Train(300, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
}

TEST(RemedyPolicyTest, StepTimesOfAnotherGenerationAndNonsenseDoNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  const auto tell = [&](StepWindow window) {
    job.Take(job.policy->OnStepTimes(window, job.facts, job.now));
  };
  for (int i = 0; i < 50; ++i) {
    tell({Generation(0), PlanEpoch(1), 10 * i, 10, 1.5});
    tell({Generation(1), PlanEpoch(2), 10 * i, 10, 1.5});
    tell({Generation(1), PlanEpoch(1), 10 * i, 0, 1.5});
    tell({Generation(1), PlanEpoch(1), 10 * i, 10, -1});
    tell({Generation(1), PlanEpoch(1), 10 * i, 10, std::nan("")});
    tell({Generation(1), PlanEpoch(1), 10 * i, 10, 36001});
  }
  EXPECT_EQ(job.policy->ignored(), 300);
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_EQ(job.orders, 0) << "the job's step is not known";
}

TEST(RemedyPolicyTest, RankThatIsWellAgainIsLeftAlone) {
  for (const auto kind : {VerdictKind::kRecovered, VerdictKind::kTransient}) {
    PolicyJob job(StragglerMode::kAdvise);
    AddStraggler(job);
    job.Tell(kind, 4);
    EXPECT_THAT(job.Open(), SizeIs(1)) << "another rank";
    job.Tell(kind, 5);
    EXPECT_EQ(job.Last().state, DecisionState::kWithdrawn);
    EXPECT_EQ(job.Last().outcome, "rank 5 is well again");
    job.Train(1000, 0.15);
    EXPECT_THAT(job.policy->decisions(), SizeIs(1));
  }
}

TEST(RemedyPolicyTest, NodeGoesBeforeItsRanks) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.nodes[NodeName("n5")] = {2, 2, ""};
  VerdictReport node = job.Report(VerdictKind::kNode, -1);
  node.verdict.node = 5;
  node.node = NodeName("n5");
  job.Tell(node);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  job.Tell(VerdictKind::kPersistent, 5);  // It is told again.
  EXPECT_THAT(job.policy->cases(), SizeIs(1));
  job.Train(1000, 0.15);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  EXPECT_EQ(job.Last().rank, -1);
  job.Tell(VerdictKind::kRecovered, 5);
  EXPECT_THAT(job.Open(), IsEmpty());
}

TEST(RemedyPolicyTest, GroupEventIsNoRanksFault) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_STREQ(job.policy->RefuseApply(2, job.facts)->reason, "ADVICE_NOT_APPLICABLE");
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_THAT(job.policy->decisions(), SizeIs(2)) << "a person is asked once";
}

TEST(RemedyPolicyTest, VerdictsSoonAfterAGroupEventWait) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  job.Wait(absl::Seconds(30));
  job.Tell(VerdictKind::kPersistent, 5);
  job.Wait(absl::Seconds(29));
  EXPECT_EQ(job.orders, 0);
  EXPECT_EQ(job.policy->NextDeadline(), job.now.steady + absl::Seconds(1));
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, GroupEventOfOthersChangesNothing) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  VerdictReport other = job.Report(VerdictKind::kGroup, -1);
  other.verdict.peer_group = 3;
  job.Tell(other);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kAdvised);
}

TEST(RemedyPolicyTest, ManyStragglersAreNotReplaced) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.brake = "not yet";
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kPersistent, 1);
  job.Tell(VerdictKind::kPersistent, 2);
  EXPECT_THAT(job.Open(), SizeIs(2)) << "a quarter";
  job.Tell(VerdictKind::kPersistent, 3);
  job.Train(1000, 0.15);
  job.facts.brake.clear();
  job.Train(1000, 0.15);
  EXPECT_EQ(job.orders, 0);
  for (const RemedyDecision& d : job.Open()) {
    EXPECT_EQ(d.kind, RemedyKind::kAskPerson);
    EXPECT_THAT(d.reason, HasSubstr("3 stragglers of 8 ranks"));
  }
  EXPECT_THAT(job.Open(), SizeIs(3));
}

TEST(RemedyPolicyTest, OneOrderAtATime) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.facts.checked_spares = 2;
  job.Tell(VerdictKind::kPersistent, 6);
  job.Train(2000, 0.15);
  EXPECT_EQ(job.orders, 1);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_STREQ(job.policy->RefuseApply(2, job.facts)->reason, "REMEDY_IN_FLIGHT");
  job.Done();
  EXPECT_EQ(job.stored.at(2).state, DecisionState::kWithdrawn) << "of the generation before";
}

TEST(RemedyPolicyTest, NothingIsBegunBeforeTheLastWasChecked) {
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

TEST(RemedyPolicyTest, RestsAfterAnOrder) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.facts.checked_spares = 3;
  job.Done();
  job.Train(130, 0.1);
  ASSERT_EQ(job.stored.at(1).state, DecisionState::kHelped);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 2);  // 43 s later.
  EXPECT_EQ(job.orders, 1);
  EXPECT_THAT(job.Open(), SizeIs(1));
  job.Wait(absl::Seconds(15));
  EXPECT_EQ(job.orders, 1);
  const absl::Time due = job.policy->NextDeadline();
  job.Wait(due - job.now.steady);
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyPolicyTest, BrakeHoldsTheAutomationAndNoPerson) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.brake = "paused by ann";
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.orders, 0);
  EXPECT_EQ(job.policy->NextDeadline(), absl::InfiniteFuture());
  job.Apply(1);
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, BrakeOnANodeHoldsItsDrain) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.checked_spares = 0;
  job.there.brake = "held by ann";
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  EXPECT_EQ(job.orders, 0);
  job.there.brake.clear();
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, NothingWhileTheMembershipChanges) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.15);
  job.facts.running = false;
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.facts.running = true;
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, AdviceChangesWithWhatIsPossible) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.facts.checked_spares = 0;
  EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "REMEDY_IMPOSSIBLE");
  job.Train(1000, 0.15);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
}

TEST(RemedyPolicyTest, RefusesToApplyWhatIsNot) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  EXPECT_STREQ(job.policy->RefuseApply(7, job.facts)->reason, "ADVICE_NOT_FOUND");
  job.Apply(1);
  EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "ADVICE_CLOSED");
}

TEST(RemedyPolicyTest, SwapThatFailsIsNotRepeatedButEscalated) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Failed("the spare has died");
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);
  EXPECT_EQ(job.stored.at(1).outcome, "the spare has died");
  job.Train(1000, 0.15);  // The same generation goes on.
  EXPECT_EQ(job.orders, 2);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  job.Failed("no place");
  job.Train(2000, 0.15);
  EXPECT_EQ(job.orders, 2);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("HOT_SWAP was tried in vain; DRAIN was tried in vain"));
}

TEST(RemedyPolicyTest, SwapThatDidNotHelpIsForAPerson) {
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

TEST(RemedyPolicyTest, SameRankSlowOnAnotherNodeIsNotTheNodesFault) {
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

TEST(RemedyPolicyTest, DrainThatDidNotHelpIsTakenBack) {
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

TEST(RemedyPolicyTest, CheckThatSomethingElseDisturbsStaysOpen) {
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

TEST(RemedyPolicyTest, UncertainCheckEndsOpen) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Done();
  for (int i = 0; i < 60; ++i) {  // On average as the threshold.
    job.Train(10, 0.025);
    job.Train(10, 0.225);
  }
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kUnchecked);
  EXPECT_THAT(job.stored.at(1).outcome, HasSubstr("not certain"));
}

TEST(RemedyPolicyTest, OrdersAndChecksDoNotLastForEver) {
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

TEST(RemedyPolicyTest, PersonMayGoOnWhileACheckIsOpen) {
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

TEST(RemedyPolicyTest, LadderChangesAfterTwoPlansThatAgree) {
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
  EXPECT_EQ(job.Last().done_epoch, PlanEpoch(2));
  job.Train(130, 0.2);
  EXPECT_EQ(job.Last().state, DecisionState::kHelped);
}

TEST(RemedyPolicyTest, LadderWaitsUntilEnoughIsLost) {
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

TEST(RemedyPolicyTest, LadderWaitsForAPlanThatIsPending) {
  PolicyJob job(StragglerMode::kAdvise);
  job.facts.plan_pending = true;
  AddStalls(job);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.facts.plan_pending = false;
  job.Wait(absl::Seconds(1));
  EXPECT_THAT(job.Open(), SizeIs(1));
}

TEST(RemedyPolicyTest, InModeAdviseBothAreAdvised) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  for (int i = 0; i < 2; ++i) job.TellPlan(LadderAdvice::kChange, kLadder, 0.1, {}, 0.15);
  job.Train(100, 0.15);
  EXPECT_THAT(job.Open(), SizeIs(2));
}

TEST(RemedyPolicyTest, LadderDoesNotChangeShortlyBeforeTheEnd) {
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

TEST(RemedyPolicyTest, PredictionIsTheMeasuredStepByThePlansRatio) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.33);  // The plan thought 0.3.
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(50, 0.33);
  EXPECT_NEAR(job.Last().predicted_s, 0.22, 1e-9);
}

TEST(RemedyPolicyTest, LadderThatDidNotHelpIsTakenBackOnce) {
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

TEST(RemedyPolicyTest, UndoIsAdviceInModeAdvise) {
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

TEST(RemedyPolicyTest, UndoThatFailsIsForAPerson) {
  PolicyJob job(StragglerMode::kAuto);
  AddStalls(job);
  job.Done();
  job.Train(130, 0.3);
  job.Failed("rank 3 could not prepare it");
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_THAT(job.Last().reason, HasSubstr("has failed: rank 3 could not prepare it"));
  EXPECT_EQ(job.orders, 2);
}

TEST(RemedyPolicyTest, OneLadderPerWindow) {
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

TEST(RemedyPolicyTest, LadderThatGainsNothingIsGivenUpWithoutHurry) {
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

TEST(RemedyPolicyTest, LadderAdviceIsWithdrawnWhenItIsNoLongerOne) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStalls(job);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.TellPlan(LadderAdvice::kKeep, {}, 0.3, {}, 0.3);
  EXPECT_THAT(job.Open(), IsEmpty());
  EXPECT_EQ(job.Last().outcome, "as planned");
}

TEST(RemedyPolicyTest, StragglerIsReplacedBeforeTheLadderChanges) {
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

TEST(RemedyPolicyTest, NoLadderWhileAGroupEventIsFresh) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.3);
  job.Tell(VerdictKind::kGroup, -1);
  for (int i = 0; i < 3; ++i) job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.Wait(absl::Minutes(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyPolicyTest, JobWithoutALadderIsToldOfOne) {
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

TEST(RemedyPolicyTest, PlanOfAnotherEpochDoesNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.3);
  job.facts.epoch = PlanEpoch(2);
  job.Train(300, 0.3);
  LadderReport report;
  report.plan.advice = LadderAdvice::kChange;
  report.plan.step_s = 0.2;
  report.plan.current.step_s = 0.3;
  report.generation = Generation(1);
  report.epoch = PlanEpoch(1);
  for (int i = 0; i < 5; ++i) {
    job.Take(job.policy->OnLadderPlan(report, job.facts, job.now));
    job.Train(50, 0.3);
  }
  EXPECT_EQ(job.orders, 0);
}

TEST(RemedyPolicyTest, SlowNetworkIsForAPerson) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.15);
  VerdictReport report = job.Report(VerdictKind::kPersistent, 5);
  report.verdict.cause = StragglerCause::kCommunication;
  job.Tell(report);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "little is lost yet";
  job.Train(1000, 0.15);
  EXPECT_EQ(job.orders, 0);
  ASSERT_THAT(job.policy->decisions(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
}

TEST(RemedyPolicyTest, NobodyIsAskedForALittle) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.recovers = false;
  job.Train(500, 0.104);
  job.Tell(VerdictKind::kPersistent, 5, 1.04);
  job.Train(20000, 0.104);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.Tell(VerdictKind::kPersistent, 5, 1.06);
  job.Train(10, 0.106);
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
}

TEST(RemedyPolicyTest, RestartGoesOnWithWhatIsUnderWay) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Restart(StragglerMode::kAuto);
  job.Train(100, 0.15);
  EXPECT_EQ(job.orders, 1) << "not ordered twice";
  job.Done();
  job.Train(60, 0.1);
  job.Restart(StragglerMode::kAuto);
  job.Train(110, 0.1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kChecking) << "the check begins anew";
  job.Train(20, 0.1);
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kHelped);
}

TEST(RemedyPolicyTest, RestartWithdrawsAdviceAndRests) {
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

TEST(RemedyPolicyTest, RestartForgetsNoFailure) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  job.Failed("the spare has died");
  job.Restart(StragglerMode::kAuto);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
}

TEST(RemedyPolicyTest, RestartKeepsTheUndoThatIsAdvised) {
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

TEST(RemedyPolicyTest, RestartKeepsTheLaddersWindow) {
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

TEST(RemedyPolicyTest, OldDecisionsAreForgotten) {
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
