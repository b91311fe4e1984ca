#include "controller/core/node/hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

Hold Cordon(const char* owner, double until = 0) {
  Hold hold;
  hold.owner = owner;
  hold.reason = "its fan is loud";
  if (until > 0) hold.until = At(until).wall;
  return hold;
}

Hold Drain(const char* owner, DrainMode mode, double until = 0) {
  Hold hold = Cordon(owner, until);
  hold.drain = mode;
  return hold;
}

TEST(HoldTest, OwnerHasOneCordonAndOneDrain) {
  std::vector<Hold> holds;
  EXPECT_TRUE(SetHold(holds, Cordon("ann"), At(0)));
  EXPECT_TRUE(SetHold(holds, Drain("ann", DrainMode::kSwap), At(1)));
  EXPECT_TRUE(SetHold(holds, Cordon("bob"), At(2)));
  EXPECT_TRUE(SetHold(holds, Drain("ann", DrainMode::kFinish), At(3)));
  ASSERT_THAT(holds, SizeIs(3));
  EXPECT_EQ(holds[1].drain, DrainMode::kFinish);
  EXPECT_EQ(holds[1].since, At(3).wall);
}

TEST(HoldTest, RepeatChangesNothingAndItsDeadlineRunsOn) {
  std::vector<Hold> holds;
  SetHold(holds, Drain("ann", DrainMode::kSwap, 3600), At(0));
  EXPECT_FALSE(SetHold(holds, Drain("ann", DrainMode::kSwap, 3700.1), At(100)));
  EXPECT_EQ(holds[0].due, At(3600).steady);
  EXPECT_TRUE(SetHold(holds, Drain("ann", DrainMode::kSwap, 7300), At(100))) << "two hours";
  EXPECT_EQ(holds[0].due, At(7300).steady);
}

TEST(HoldTest, UncordonTakesOnlyTheCallersCordon) {
  std::vector<Hold> holds;
  SetHold(holds, Cordon("ann"), At(0));
  SetHold(holds, Drain("ann", DrainMode::kSwap), At(0));
  EXPECT_FALSE(RemoveCordon(holds, "bob"));
  EXPECT_TRUE(RemoveCordon(holds, "ann"));
  ASSERT_THAT(holds, SizeIs(1));
  EXPECT_TRUE(holds[0].drain.has_value());
}

TEST(HoldTest, PersonTakesAllAwayAndTheAutomationOnlyItsOwn) {
  std::vector<Hold> holds;
  SetHold(holds, Cordon("ann"), At(0));
  SetHold(holds, Drain("automation", DrainMode::kSwap), At(0));
  EXPECT_TRUE(RemoveHolds(holds, "automation"));
  ASSERT_THAT(holds, SizeIs(1));
  EXPECT_EQ(holds[0].owner, "ann");
  EXPECT_FALSE(RemoveHolds(holds, "automation"));
  EXPECT_TRUE(RemoveHolds(holds, "bob"));
  EXPECT_THAT(holds, IsEmpty());
}

TEST(HoldTest, AutomationLeavesToAPersonWhatThatPersonHolds) {
  std::vector<Hold> holds;
  SetHold(holds, Drain("automation", DrainMode::kSwap), At(0));
  EXPECT_FALSE(RefuseAutomaticHold(holds).has_value());
  SetHold(holds, Cordon("ann"), At(0));
  const auto refusal = RefuseAutomaticHold(holds);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_STREQ(refusal->reason, "HELD_BY_PERSON");
  EXPECT_THAT(refusal->message, HasSubstr("cordoned by ann: its fan is loud"));
}

TEST(HoldTest, DrainForNowCountsFirstThenThatOfAPersonThenTheNewest) {
  std::vector<Hold> holds;
  EXPECT_EQ(EffectiveDrain(holds), nullptr);
  SetHold(holds, Cordon("ann"), At(0));
  EXPECT_EQ(EffectiveDrain(holds), nullptr);
  SetHold(holds, Drain("ann", DrainMode::kFinish), At(1));
  SetHold(holds, Drain("automation", DrainMode::kSwap), At(2));
  EXPECT_EQ(EffectiveDrain(holds)->owner, "ann");
  SetHold(holds, Drain("bob", DrainMode::kCheckpoint), At(3));
  EXPECT_EQ(EffectiveDrain(holds)->owner, "bob");
  SetHold(holds, Drain("ann", DrainMode::kNow), At(4));
  SetHold(holds, Drain("bob", DrainMode::kSwap), At(5));
  EXPECT_EQ(EffectiveDrain(holds)->owner, "ann");
}

TEST(HoldTest, TimeEndsACordonAndMakesADrainOneForNow) {
  std::vector<Hold> holds;
  SetHold(holds, Cordon("ann", 10), At(0));
  SetHold(holds, Drain("bob", DrainMode::kSwap, 20), At(0));
  EXPECT_EQ(NextExpiry(holds), At(10).steady);
  EXPECT_THAT(ExpireHolds(holds, At(9).steady), IsEmpty());
  EXPECT_THAT(ExpireHolds(holds, At(10).steady), ElementsAre(HasSubstr("cordon by ann has ended")));
  EXPECT_THAT(ExpireHolds(holds, At(20).steady), ElementsAre(HasSubstr("deadline")));
  EXPECT_EQ(holds[0].drain, DrainMode::kNow);
  EXPECT_EQ(NextExpiry(holds), absl::InfiniteFuture());
}

TEST(HoldTest, RestoredHoldKeepsItsTimeOnTheWall) {
  std::vector<Hold> holds = {Cordon("ann", 10)};
  const Moment now{absl::UnixEpoch() + absl::Seconds(5000), At(4).wall};
  RestoreExpiry(holds, now);
  EXPECT_EQ(holds[0].due, now.steady + absl::Seconds(6));
}

}  // namespace
}  // namespace paceline
