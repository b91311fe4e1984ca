#include "controller/core/stragglers/remedy/remedy_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST(RemedyPolicyTest, SuspectsAndTransientsAreLeftAlone) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.15);
  job.Tell(VerdictKind::kSuspect, 5);
  job.Train(300, 0.15);
  job.Tell(VerdictKind::kTransient, 5);
  job.Train(300, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
}

TEST(RemedyPolicyTest, VerdictsOfAnotherGenerationOrPlanVersionOrOfMaskedStepsDoNotCount) {
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
  bad.plan_version = PlanVersion(0);
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

TEST(RemedyPolicyTest, NewGenerationOrPlanVersionWithdrawsAdvice) {
  for (const bool by_version : {false, true}) {
    PolicyJob job(StragglerMode::kAdvise);
    AddStraggler(job);
    if (by_version) {
      job.facts.plan_version = PlanVersion(2);
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

TEST(RemedyPolicyTest, StepTimesOfAnotherGenerationAndNonsenseDoNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  const auto tell = [&](StepSpan window) {
    job.Take(job.policy->OnStepTimes(window, job.facts, job.now));
  };
  for (int i = 0; i < 50; ++i) {
    tell({Generation(0), PlanVersion(1), 10 * i, 10, 1.5});
    tell({Generation(1), PlanVersion(2), 10 * i, 10, 1.5});
    tell({Generation(1), PlanVersion(1), 10 * i, 0, 1.5});
    tell({Generation(1), PlanVersion(1), 10 * i, 10, -1});
    tell({Generation(1), PlanVersion(1), 10 * i, 10, std::nan("")});
    tell({Generation(1), PlanVersion(1), 10 * i, 10, 36001});
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

// A verdict about a rank on n5, or about that node.
VerdictReport OnNode5(const PolicyJob& job, VerdictKind kind, int rank) {
  VerdictReport report = job.Report(kind, rank);
  report.verdict.node = 5;
  report.node = NodeName("n5");
  return report;
}

// Makes ranks 5 and 6, both on n5, slow.
void AddSlowNode(PolicyJob& job) {
  job.nodes[NodeName("n5")] = {2, 2, ""};
  job.facts.checked_spares = 2;
  AddStraggler(job);
  job.Tell(OnNode5(job, VerdictKind::kPersistent, 6));
  job.Tell(OnNode5(job, VerdictKind::kNode, -1));
}

TEST(RemedyPolicyTest, NodeGoesBeforeItsRanks) {
  PolicyJob job(StragglerMode::kAdvise);
  AddSlowNode(job);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  job.Tell(VerdictKind::kPersistent, 5);  // Reported again.
  job.Train(1000, 0.15);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
  EXPECT_EQ(job.Last().rank, -1);
}

TEST(RemedyPolicyTest, NodeStaysSlowWhenOneOfItsOtherRanksIsWellAgain) {
  PolicyJob job(StragglerMode::kAdvise);
  AddSlowNode(job);
  job.Train(1000, 0.15);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.Tell(OnNode5(job, VerdictKind::kTransient, 7));
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().verdict.kind, VerdictKind::kNode);
}

TEST(RemedyPolicyTest, RankThatStaysSlowOnANodeThatDoesNotIsAdvisedOn) {
  PolicyJob job(StragglerMode::kAdvise);
  AddSlowNode(job);
  job.Train(1000, 0.15);
  const int64_t of_node = job.Last().id;
  job.Tell(OnNode5(job, VerdictKind::kRecovered, 5));
  EXPECT_EQ(job.policy->Find(of_node)->outcome, "rank 5 is well again");
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kHotSwap);
  EXPECT_EQ(job.Last().rank, 6);
  job.Tell(OnNode5(job, VerdictKind::kRecovered, 6));
  EXPECT_THAT(job.Open(), IsEmpty());
  EXPECT_THAT(job.policy->cases(), IsEmpty());
}

TEST(RemedyPolicyTest, GroupEventIsNoRanksFault) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  EXPECT_THAT(job.Open(), IsEmpty());
}

TEST(RemedyPolicyTest, OfAGroupAPersonIsToldWhenAsMuchIsLostAsMatters) {
  PolicyJob job(StragglerMode::kAdvise);
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_THAT(job.Open(), IsEmpty()) << "it has cost 7.5 s";
  job.Train(440, 0.15);
  EXPECT_THAT(job.Open(), IsEmpty()) << "29.5 s";
  job.Train(20, 0.15);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kAskPerson);
  EXPECT_EQ(DescribeRemedy(job.Last()), "reported: a whole group is slow");
  EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "ADVICE_NOT_APPLICABLE");
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_THAT(job.Open(), SizeIs(1)) << "a person is told once";
}

TEST(RemedyPolicyTest, OfAGroupWhoseLossIsSmallNobodyIsTold) {
  PolicyJob job(StragglerMode::kAdvise);
  job.Train(500, 0.15);
  job.Tell(VerdictKind::kGroup, -1, 1.04);
  job.Train(10000, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "58 s, but less than 5 % of the time";
  job.Tell(VerdictKind::kGroup, -1, 2);
  VerdictReport faster = job.Report(VerdictKind::kGroup, -1, 0.9);
  faster.verdict.lost_share = 0;
  job.Tell(faster);
  job.Train(10000, 0.15);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "it is fast again";
}

TEST(RemedyPolicyTest, WhatIsToldOfAGroupIsTrueForEachKind) {
  PolicyJob job(StragglerMode::kAdvise);
  job.Train(500, 0.15);
  VerdictReport group = job.Report(VerdictKind::kGroup, -1, 1.25);
  job.Tell(group);
  job.Train(1000, 0.15);
  EXPECT_EQ(
      job.Last().reason,
      "many ranks of peer group 0, or all, have become slower together: 1.25 x since step 350, "
      "20 % of the job's time; no rank is the cause");
  group.verdict.peer_group = 1;
  group.verdict.cause = StragglerCause::kImbalance;
  group.verdict.lost_share = 0;  // Not known.
  group.verdict.step += 1000;
  job.Tell(group);
  job.Train(1000, 0.15);
  EXPECT_EQ(job.Last().reason,
            "peer group 1 takes 1.25 x the time of the other groups since step 350; no rank is the "
            "cause");
}

TEST(RemedyPolicyTest, NobodyIsAskedAboutAJobThatHasBecomeFaster) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  VerdictReport faster = job.Report(VerdictKind::kGroup, -1, 0.8);
  faster.verdict.lost_share = 0;
  job.Tell(faster);
  ASSERT_THAT(job.policy->decisions(), SizeIs(1));
  EXPECT_EQ(job.Last().outcome,
            "peer group 0 is faster since step 350: it takes 0.80 x its earlier time");
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

TEST(RemedyPolicyTest, StragglerThatWasKnownBeforeAGroupEventIsReplacedAfterIt) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.brake = "paused";
  AddStraggler(job);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  job.facts.brake.clear();
  job.Wait(absl::Seconds(59));
  EXPECT_EQ(job.orders, 0);
  EXPECT_EQ(job.policy->NextDeadline(), job.now.steady + absl::Seconds(1));
  job.Wait(absl::Seconds(1));
  ASSERT_EQ(job.orders, 1);
  EXPECT_EQ(job.Last().rank, 5);
}

TEST(RemedyPolicyTest, NobodyIsReplacedWhileMoreThanAQuarterAreSlow) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.brake = "paused";
  AddStraggler(job);
  job.Tell(VerdictKind::kSuspect, 1);
  EXPECT_THAT(job.Open(), SizeIs(1)) << "a quarter";
  job.Tell(VerdictKind::kSuspect, 2);
  EXPECT_THAT(job.Open(), IsEmpty());
  job.facts.brake.clear();
  job.Train(1000, 0.15);
  EXPECT_THAT(job.policy->decisions(), SizeIs(1));
  job.Tell(VerdictKind::kTransient, 2);
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

TEST(RemedyPolicyTest, VerdictThatIsNeitherOfARankNorOfANodeDoesNotCount) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(500, 0.15);
  for (const VerdictKind kind :
       {VerdictKind::kSuspect, VerdictKind::kPersistent, VerdictKind::kNode,
        VerdictKind::kTransient, VerdictKind::kRecovered}) {
    VerdictReport report = job.Report(kind, -1);
    report.verdict.cause = StragglerCause::kCommunication;
    job.Tell(report);
  }
  job.Train(500, 0.15);
  EXPECT_EQ(job.policy->ignored(), 5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  EXPECT_EQ(job.orders, 0);
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

}  // namespace
}  // namespace paceline
