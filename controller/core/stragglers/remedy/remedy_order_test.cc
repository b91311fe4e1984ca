// When advice becomes an order: modes, loss and cost, brakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(RemedyOrderTest, ModeOffDecidesNothing) {
  PolicyJob job(StragglerMode::kOff);
  AddStraggler(job);
  job.Train(1000, 0.15);
  job.Tell(VerdictKind::kGroup, -1);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
}

TEST(RemedyOrderTest, ModeAdviseWaitsForAPerson) {
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

TEST(RemedyOrderTest, ModeCanChange) {
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

TEST(RemedyOrderTest, WaitsUntilAsMuchIsLostAsTheRemedyCosts) {
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

TEST(RemedyOrderTest, DoesNothingShortlyBeforeTheEnd) {
  PolicyJob job(StragglerMode::kAuto);
  job.Train(300, 0.15);
  job.facts.steps_left = 5;  // The straggler costs 1.7 of them, a swap 2.
  job.Tell(VerdictKind::kPersistent, 5);
  EXPECT_THAT(job.policy->decisions(), IsEmpty());
  job.facts.steps_left = 7;
  job.Wait(absl::Seconds(1));
  EXPECT_EQ(job.orders, 1);
}

TEST(RemedyOrderTest, OneOrderAtATime) {
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

TEST(RemedyOrderTest, RestsAfterAnOrder) {
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

TEST(RemedyOrderTest, SwapFailsThatHasNoSpareAnyMoreAndNoSlotForAnother) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  ASSERT_EQ(job.Last().kind, RemedyKind::kHotSwap);
  job.facts.spares = job.facts.checked_spares = 0;
  job.Train(1000, 0.15);
  EXPECT_TRUE(IsInFlight(job.stored.at(1))) << "another spare may start";
  job.there.slots_elsewhere = 0;
  job.Train(10, 0.15);
  EXPECT_EQ(job.policy->NextDeadline(), job.now.steady + absl::Minutes(1));
  job.facts.spares = 1;  // A spare starts.
  job.Wait(absl::Minutes(2));
  EXPECT_TRUE(IsInFlight(job.stored.at(1)));
  job.facts.spares = 0;
  job.Wait(absl::Seconds(1));
  job.Wait(absl::Minutes(1));
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);
  EXPECT_EQ(job.stored.at(1).outcome, "there is no spare any more, and no slot for another");
}

TEST(RemedyOrderTest, TimesOutThoughItsTimerIsLate) {
  PolicyJob job(StragglerMode::kAuto);
  AddStraggler(job);
  ASSERT_EQ(job.orders, 1);
  job.now.steady += absl::Minutes(16);
  job.Train(10, 0.1);  // Steps are reported before the timer fires.
  ASSERT_TRUE(IsInFlight(job.stored.at(1)));
  ASSERT_LE(job.policy->NextDeadline(), job.now.steady);
  job.Wait(absl::ZeroDuration());
  EXPECT_EQ(job.stored.at(1).state, DecisionState::kFailed);
}

TEST(RemedyOrderTest, IdsAreNotUsedAgainThoughOldDecisionsAreForgotten) {
  PolicyJob job(StragglerMode::kAdvise);
  const auto count = static_cast<int64_t>(kDecisionsKept) + 1;
  for (int64_t id = 1; id <= count; ++id) {
    RemedyDecision& decision = job.stored[id];
    decision.id = id;
    decision.state = id < count ? DecisionState::kHelped : DecisionState::kWithdrawn;
  }
  job.Restart(StragglerMode::kAdvise);
  job.Train(10, 0.1);
  EXPECT_EQ(job.stored.size(), kDecisionsKept);
  EXPECT_EQ(job.stored.count(count), 1U);
}

TEST(RemedyOrderTest, BrakeHoldsTheAutomationAndNoPerson) {
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

TEST(RemedyOrderTest, BrakeOnANodeHoldsItsDrain) {
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

TEST(RemedyOrderTest, NothingWhileTheMembershipChanges) {
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

TEST(RemedyOrderTest, AdviceChangesWithWhatIsPossible) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  job.facts.checked_spares = 0;
  EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "REMEDY_IMPOSSIBLE");
  job.Train(1000, 0.15);
  EXPECT_EQ(job.policy->Find(1)->state, DecisionState::kWithdrawn);
  ASSERT_THAT(job.Open(), SizeIs(1));
  EXPECT_EQ(job.Last().kind, RemedyKind::kDrain);
}

TEST(RemedyOrderTest, RefusesToApplyWhatIsNot) {
  PolicyJob job(StragglerMode::kAdvise);
  AddStraggler(job);
  EXPECT_STREQ(job.policy->RefuseApply(7, job.facts)->reason, "ADVICE_NOT_FOUND");
  job.Apply(1);
  EXPECT_STREQ(job.policy->RefuseApply(1, job.facts)->reason, "ADVICE_CLOSED");
}

}  // namespace
}  // namespace paceline
