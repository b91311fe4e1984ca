#include "slipstream/quorum.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr absl::Duration kStep = absl::Milliseconds(100);
const absl::Time kNow = absl::FromUnixSeconds(1000);

absl::Time After(int milliseconds) { return kNow + absl::Milliseconds(milliseconds); }

TEST(QuorumTest, AllThatAreReadyNeedNoTime) {
  Quorum quorum(4);
  EXPECT_TRUE(quorum.Poll(4, 0, 0, /*waits_for_all=*/false, kNow));
  EXPECT_TRUE(quorum.Poll(4, 0, 0, /*waits_for_all=*/true, kNow));
}

TEST(QuorumTest, AMajorityWaitsForATenthOfAStep) {
  Quorum quorum(4);
  EXPECT_FALSE(quorum.TimeIsUp(kNow, kStep));
  EXPECT_FALSE(quorum.Poll(3, 1, 0, false, kNow));
  EXPECT_FALSE(quorum.TimeIsUp(After(9), kStep));
  EXPECT_TRUE(quorum.TimeIsUp(After(10), kStep));
  EXPECT_FALSE(quorum.Poll(3, 1, 2, false, After(10))) << "half is no majority";
  EXPECT_TRUE(quorum.Poll(3, 1, 3, false, After(11)));
}

TEST(QuorumTest, AMajorityDoesNotWaitForThoseThatAreNotComing) {
  Quorum quorum(4);
  EXPECT_FALSE(quorum.Poll(3, 1, 0, false, kNow));
  EXPECT_TRUE(quorum.Poll(3, 0, 0, false, After(1)));
}

TEST(QuorumTest, HalfOfTheRanksIsNoMajority) {
  Quorum quorum(4);
  EXPECT_FALSE(quorum.Poll(2, 0, 4, false, kNow));
  EXPECT_FALSE(quorum.TimeIsUp(After(1000), kStep));
}

TEST(QuorumTest, SyncWaitsForAll) {
  Quorum quorum(4);
  EXPECT_FALSE(quorum.Poll(3, 0, 4, /*waits_for_all=*/true, kNow));
}

TEST(QuorumTest, TheNextRoundCountsAnew) {
  Quorum quorum(3);
  quorum.Poll(2, 1, 0, false, kNow);
  EXPECT_TRUE(quorum.Poll(2, 1, 2, false, After(10)));
  EXPECT_FALSE(quorum.TimeIsUp(After(20), kStep));
}

TEST(QuorumTest, PausesBetweenPollsFollowTheStep) {
  EXPECT_EQ(Quorum::Pause(kStep), absl::Microseconds(2500));
  EXPECT_EQ(Quorum::Pause(absl::ZeroDuration()), absl::Microseconds(200));
  EXPECT_EQ(Quorum::Pause(absl::Seconds(30)), absl::Milliseconds(20));
}

}  // namespace
}  // namespace paceline
