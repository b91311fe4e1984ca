#include "controller/core/requests/read_pace.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(ReadPaceTest, ABurstIsReadAtOnceTheRestAtTheRate) {
  ReadPace pace({10, 20});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pace.Spend(1, At(0)), absl::ZeroDuration());
  EXPECT_EQ(pace.Spend(1, At(0)), absl::Seconds(0.1));
  EXPECT_EQ(pace.Spend(1, At(0.1)), absl::Seconds(0.1));
}

TEST(ReadPaceTest, WhatCostsMuchIsWaitedForAfterwards) {
  ReadPace pace({10, 20});
  EXPECT_EQ(pace.Spend(50, At(0)), absl::Seconds(3));
  EXPECT_EQ(pace.Spend(0, At(3)), absl::ZeroDuration());
}

TEST(ReadPaceTest, ARestGivesNoMoreThanABurst) {
  ReadPace pace({10, 20});
  pace.Spend(20, At(0));
  EXPECT_EQ(pace.Spend(20, At(1000)), absl::ZeroDuration());
  EXPECT_EQ(pace.Spend(1, At(1000)), absl::Seconds(0.1));
}

TEST(ReadPaceTest, AClockThatStandsGivesNothing) {
  ReadPace pace({10, 20});
  pace.Spend(20, At(5));
  EXPECT_GT(pace.Spend(1, At(5)), absl::ZeroDuration());
}

}  // namespace
}  // namespace paceline
