// Outer steps, which are advised and never ordered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A look at a job that exchanges for this share of its steps, which outer steps would nearly save.
OuterReport Look(const PolicyJob& job, double share) {
  OuterReport report;
  report.outlook.today.step_s = 0.1;
  report.outlook.today.exchange_s = 0.1 * share;
  report.outlook.period = 50;
  report.outlook.outer.step_s = 0.1 * (1 - share) + 0.001;
  report.advice = "as predicted";
  report.generation = job.facts.generation;
  report.plan_version = job.facts.plan_version;
  return report;
}

void Tell(PolicyJob& job, const OuterReport& report) {
  job.Take(job.policy->OnOuterOutlook(report, job.facts, job.now));
}

// Looks twice, with steps before each.
void LookTwice(PolicyJob& job, double share) {
  for (int i = 0; i < 2; ++i) {
    job.Train(100, 0.1);
    Tell(job, Look(job, share));
  }
}

TEST(RemedyOuterTest, AdvisedOnceAfterTwoLooksThatAgree) {
  PolicyJob job(StragglerMode::kAdvise);
  job.Train(100, 0.1);
  Tell(job, Look(job, 0.5));
  Tell(job, Look(job, 0.1));
  Tell(job, Look(job, 0.5));
  EXPECT_THAT(job.Open(), IsEmpty()) << "they did not agree";
  Tell(job, Look(job, 0.5));
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kOuterStep);
  EXPECT_EQ(job.Last().reason, "as predicted");
  EXPECT_EQ(DescribeRemedy(job.Last()), "outer steps: 50:all");
  EXPECT_NEAR(job.Last().predicted_s, 0.051, 1e-9);
  LookTwice(job, 0.6);
  EXPECT_THAT(job.policy->decisions(), SizeIs(1));
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kAdvised);
}

TEST(RemedyOuterTest, NobodyCarriesItOut) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.is_auto = true;
  LookTwice(job, 0.5);
  ASSERT_THAT(job.Open(), SizeIs(1));
  job.Wait(absl::Hours(2));
  EXPECT_EQ(job.orders, 0);
  const auto refusal = job.policy->RefuseApply(1, job.facts);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, std::string("ADVICE_NOT_APPLICABLE"));
  EXPECT_THAT(refusal->message, HasSubstr("is for people: as predicted"));
}

TEST(RemedyOuterTest, ItStaysBetweenTheThresholdsAndIsWithdrawnBelow) {
  PolicyJob job(StragglerMode::kAdvise);
  LookTwice(job, 0.29);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "not enough for advice";
  LookTwice(job, 0.31);
  ASSERT_THAT(job.Open(), SizeIs(1));
  LookTwice(job, 0.21);
  EXPECT_THAT(job.Open(), SizeIs(1));
  Tell(job, Look(job, 0.19));
  EXPECT_THAT(job.Open(), IsEmpty());
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kWithdrawn);
  EXPECT_THAT(job.stored.at(1).outcome, HasSubstr("19 % of a step is exchange"));
  LookTwice(job, 0.5);
  EXPECT_THAT(job.Open(), IsEmpty()) << "not again within the hour";
  job.Wait(absl::Hours(1));
  LookTwice(job, 0.5);
  EXPECT_THAT(job.Open(), SizeIs(1));
}

TEST(RemedyOuterTest, NotWhileARankIsSlow) {
  PolicyJob job(StragglerMode::kAdvise);
  job.Train(200, 0.1);
  job.Tell(VerdictKind::kSuspect, 5);
  LookTwice(job, 0.5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.Tell(VerdictKind::kTransient, 5);
  LookTwice(job, 0.5);
  ASSERT_THAT(job.policy->decisions(), SizeIs(1));
  job.Tell(VerdictKind::kSuspect, 5);
  Tell(job, Look(job, 0.5));
  EXPECT_TRUE(IsOpenAdvice(*job.policy->Find(1))) << "most suspects are well again soon";
  job.Tell(VerdictKind::kPersistent, 5);
  Tell(job, Look(job, 0.5));
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  EXPECT_THAT(job.policy->Find(1)->outcome, HasSubstr("a rank is slow"));
}

TEST(RemedyOuterTest, NotWhereLittleIsToBeGained) {
  PolicyJob job(StragglerMode::kAdvise);
  OuterReport slow = Look(job, 0.5);
  slow.outlook.outer.step_s = 0.095;
  job.Train(100, 0.1);
  for (int i = 0; i < 3; ++i) Tell(job, slow);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "1.05 times the steps/s";
  job.facts.steps_left = 1300;  // 49 ms in each of 1,100 that are left at the second look.
  LookTwice(job, 0.5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty()) << "54 s until the end";
  job.facts.steps_left = 1600;
  LookTwice(job, 0.5);
  EXPECT_THAT(job.policy->decisions(), SizeIs(1));
}

TEST(RemedyOuterTest, ALookAtAnEarlierPlanDoesNotCount) {
  PolicyJob job(StragglerMode::kAdvise);
  const OuterReport earlier = Look(job, 0.5);
  LookTwice(job, 0.5);
  job.facts.plan_version = PlanVersion(2);
  job.Train(100, 0.1);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  for (int i = 0; i < 2; ++i) Tell(job, earlier);
  EXPECT_EQ(job.policy->ignored(), 2);
  Tell(job, Look(job, 0.5));
  EXPECT_THAT(job.Open(), IsEmpty());
  Tell(job, Look(job, 0.5));
  EXPECT_THAT(job.Open(), SizeIs(1)) << "by the new plan, too";
}

TEST(RemedyOuterTest, ModeOffWithdrawsItAndAdvisesNone) {
  PolicyJob job(StragglerMode::kAdvise);
  LookTwice(job, 0.5);
  job.Take(job.policy->SetMode(StragglerMode::kOff, job.facts, job.now));
  EXPECT_THAT(job.Open(), IsEmpty());
  LookTwice(job, 0.5);
  EXPECT_THAT(job.policy->decisions(), SizeIs(1));
}

TEST(RemedyOuterTest, AfterARestartItIsAdvisedAnew) {
  PolicyJob job(StragglerMode::kAdvise);
  LookTwice(job, 0.5);
  job.Restart(StragglerMode::kAdvise);
  EXPECT_THAT(job.Open(), IsEmpty());
  LookTwice(job, 0.5);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().id, 2);
}

}  // namespace
}  // namespace paceline
