#include "controller/core/requests/rate_limit.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

bool Takes(RateLimit& limit, const std::string& caller, double seconds) {
  return limit.Take(caller, At(seconds)) == absl::ZeroDuration();
}

TEST(RateLimitTest, BurstThenTheRate) {
  RateLimit limit({/*per_second=*/2, /*burst=*/3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Takes(limit, "a", 0)) << i;
  EXPECT_EQ(limit.Take("a", At(0)), absl::Milliseconds(500));
  EXPECT_EQ(limit.Take("a", At(0.25)), absl::Milliseconds(250));
  EXPECT_TRUE(Takes(limit, "a", 0.5));
  EXPECT_FALSE(Takes(limit, "a", 0.5));
}

TEST(RateLimitTest, QuietTimeGivesNoMoreThanABurst) {
  RateLimit limit({1, 2});
  EXPECT_TRUE(Takes(limit, "a", 0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Takes(limit, "a", 1000)) << i;
  EXPECT_FALSE(Takes(limit, "a", 1000));
}

TEST(RateLimitTest, CallersDoNotDisturbEachOther) {
  RateLimit limit({1, 1});
  EXPECT_TRUE(Takes(limit, "a", 0));
  EXPECT_FALSE(Takes(limit, "a", 0));
  EXPECT_TRUE(Takes(limit, "b", 0));
}

TEST(RateLimitTest, RefusalsCostNothing) {
  RateLimit limit({1, 1});
  EXPECT_TRUE(Takes(limit, "a", 0));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Takes(limit, "a", 0.5));
  EXPECT_TRUE(Takes(limit, "a", 1));
}

TEST(RateLimitTest, WhatIsChargedIsWaitedForBeforeTheNext) {
  RateLimit limit({/*per_second=*/2, /*burst=*/4});
  EXPECT_TRUE(Takes(limit, "a", 0));
  limit.Charge("a", 4, At(0));
  EXPECT_EQ(limit.Take("a", At(0)), absl::Seconds(1)) << "one is owed";
  EXPECT_TRUE(Takes(limit, "a", 1));
  EXPECT_FALSE(Takes(limit, "a", 1));
}

TEST(RateLimitTest, DebtIsBounded) {
  RateLimit limit({/*per_second=*/2, /*burst=*/4});
  EXPECT_TRUE(Takes(limit, "a", 0));
  limit.Charge("a", 1e9, At(0));
  EXPECT_EQ(limit.Take("a", At(0)), absl::Seconds(2.5));
}

TEST(RateLimitTest, WhoHasTakenNothingIsNotCharged) {
  RateLimit limit({1, 1});
  limit.Charge("a", 5, At(0));
  EXPECT_EQ(limit.callers(), 0u);
  EXPECT_TRUE(Takes(limit, "a", 0));
}

TEST(RateLimitTest, ThreadsThatComeInAnyOrderGetNoTokenTwice) {
  RateLimit limit({1, 2});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Takes(limit, "a", 2)) << i;
  EXPECT_FALSE(Takes(limit, "a", 1));
  EXPECT_FALSE(Takes(limit, "a", 2));
  EXPECT_TRUE(Takes(limit, "a", 3));
}

TEST(RateLimitTest, ZeroIsNoLimit) {
  RateLimit limit({0, 1});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Takes(limit, "a", 0));
  EXPECT_EQ(limit.callers(), 0u);
}

TEST(RateLimitTest, CallersThatAreRememberedAreBounded) {
  RateLimit limit({1, 1, /*max_callers=*/2});
  EXPECT_TRUE(Takes(limit, "a", 0));
  EXPECT_TRUE(Takes(limit, "b", 0.5));
  EXPECT_FALSE(Takes(limit, "c", 0.5));
  EXPECT_EQ(limit.callers(), 2u);
  // The first caller has its token again and is forgotten.
  EXPECT_TRUE(Takes(limit, "c", 1));
  EXPECT_EQ(limit.callers(), 2u);
}

}  // namespace
}  // namespace paceline
