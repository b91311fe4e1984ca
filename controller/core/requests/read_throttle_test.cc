#include "controller/core/requests/read_throttle.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(ReadThrottleTest, ABurstIsReadAtOnceTheRestAtTheRate) {
  ReadThrottle throttle({10, 20});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(throttle.Spend(1, At(0)), absl::ZeroDuration());
  EXPECT_EQ(throttle.Spend(1, At(0)), absl::Seconds(0.1));
  EXPECT_EQ(throttle.Spend(1, At(0.1)), absl::Seconds(0.1));
}

TEST(ReadThrottleTest, WhatCostsMuchIsWaitedForAfterwards) {
  ReadThrottle throttle({10, 20});
  EXPECT_EQ(throttle.Spend(50, At(0)), absl::Seconds(3));
  EXPECT_EQ(throttle.Spend(0, At(3)), absl::ZeroDuration());
}

TEST(ReadThrottleTest, ARestGivesNoMoreThanABurst) {
  ReadThrottle throttle({10, 20});
  throttle.Spend(20, At(0));
  EXPECT_EQ(throttle.Spend(20, At(1000)), absl::ZeroDuration());
  EXPECT_EQ(throttle.Spend(1, At(1000)), absl::Seconds(0.1));
}

TEST(ReadThrottleTest, AClockThatStandsGivesNothing) {
  ReadThrottle throttle({10, 20});
  throttle.Spend(20, At(5));
  EXPECT_GT(throttle.Spend(1, At(5)), absl::ZeroDuration());
}

}  // namespace
}  // namespace paceline
