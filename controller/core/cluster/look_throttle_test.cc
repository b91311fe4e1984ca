#include "controller/core/cluster/look_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId kLarge("large");  // Of 1,000 ranks: 20 ms.
const JobId kSmall("small");

absl::Time Ms(double ms) { return absl::UnixEpoch() + absl::Milliseconds(ms); }

class LookThrottleTest : public ::testing::Test {
 protected:
  bool Reports(double ms, bool news = true) {
    return throttle_.MayLook(kLarge, 1000, news, Ms(ms));
  }

  LookThrottle throttle_{LookThrottle::Options()};
};

TEST_F(LookThrottleTest, SmallJobIsLookedAtAtEachReportWithNews) {
  EXPECT_TRUE(throttle_.MayLook(kSmall, 249, true, Ms(0)));
  EXPECT_TRUE(throttle_.MayLook(kSmall, 249, true, Ms(0)));
  EXPECT_FALSE(throttle_.MayLook(kSmall, 249, false, Ms(9)));
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(LookThrottleTest, LargeJobIsLookedAtOnceInItsPeriod) {
  EXPECT_TRUE(Reports(0)) << "the first time there is nothing to wait for";
  EXPECT_FALSE(Reports(1));
  EXPECT_FALSE(Reports(19));
  EXPECT_TRUE(Reports(20));
  EXPECT_FALSE(Reports(39));
}

TEST_F(LookThrottleTest, WhatWaitsIsLookedAtByAReportWithoutNews) {
  EXPECT_FALSE(Reports(0, /*news=*/false));
  EXPECT_TRUE(Reports(1));
  EXPECT_FALSE(Reports(2));
  EXPECT_FALSE(Reports(20, /*news=*/false));
  EXPECT_TRUE(Reports(21, /*news=*/false));
  EXPECT_FALSE(Reports(60, /*news=*/false)) << "nothing has come since";
}

TEST_F(LookThrottleTest, WhatWaitsIsDueWhenNoReportComes) {
  Reports(0);
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
  Reports(1);
  Reports(2);
  EXPECT_EQ(throttle_.NextDeadline(), Ms(120));
  EXPECT_THAT(throttle_.TakeDue(Ms(119)), IsEmpty());
  EXPECT_THAT(throttle_.TakeDue(Ms(120)), ElementsAre(kLarge));
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_FALSE(Reports(121, /*news=*/false)) << "it has been looked at";
}

TEST_F(LookThrottleTest, OfAJobThatIsForgottenNothingIsDue) {
  Reports(0);
  Reports(1);
  throttle_.Forget(kLarge);
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline
