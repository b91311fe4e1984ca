#include "slipstream/running_median.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(RunningMedianTest, IsZeroBeforeTheFirst) {
  EXPECT_EQ(RunningMedian().median(), absl::ZeroDuration());
}

TEST(RunningMedianTest, StallsDoNotMoveIt) {
  RunningMedian median;
  for (int i = 0; i < 100; ++i) {
    median.Add(i % 4 == 3 ? absl::Seconds(1) : absl::Milliseconds(10));
    EXPECT_EQ(median.median(), absl::Milliseconds(10));
  }
}

TEST(RunningMedianTest, FollowsALastingChange) {
  RunningMedian median;
  for (int i = 0; i < 100; ++i) median.Add(absl::Milliseconds(10));
  for (int i = 0; i < 8; ++i) median.Add(absl::Milliseconds(15));
  EXPECT_EQ(median.median(), absl::Milliseconds(15));
}

}  // namespace
}  // namespace paceline
