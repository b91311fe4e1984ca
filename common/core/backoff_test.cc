#include "common/core/backoff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/core/hold_pause.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

TEST(BackoffTest, GrowsUpToTheMaximumWithJitterBelow) {
  Backoff backoff({absl::Milliseconds(100), absl::Milliseconds(300), 2.0}, /*seed=*/7);
  for (const int whole : {100, 200, 300, 300}) {
    EXPECT_THAT(backoff.Next(),
                AllOf(Ge(absl::Milliseconds(whole) / 2), Le(absl::Milliseconds(whole))));
  }
}

TEST(BackoffTest, ResetStartsAnew) {
  Backoff backoff({}, /*seed=*/7);
  for (int i = 0; i < 10; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, TwoClientsDoNotMarchInStep) {
  Backoff a({}, /*seed=*/1);
  Backoff b({}, /*seed=*/2);
  EXPECT_NE(a.Next(), b.Next());
}

TEST(HoldPauseTest, PausesGrowAndTheLastTryIsMadeWhenThePatienceEnds) {
  EXPECT_EQ(PauseBeforeNextTry(1, absl::ZeroDuration()), absl::Seconds(5));
  EXPECT_EQ(PauseBeforeNextTry(2, absl::Seconds(6)), absl::Seconds(10));
  EXPECT_EQ(PauseBeforeNextTry(4, absl::Seconds(40)), absl::Seconds(40));
  EXPECT_EQ(PauseBeforeNextTry(5, absl::Minutes(2)), absl::Seconds(60));
  EXPECT_EQ(PauseBeforeNextTry(1000, absl::Minutes(29)), absl::Seconds(60));
  EXPECT_EQ(PauseBeforeNextTry(30, kHoldPatience - absl::Seconds(7)), absl::Seconds(7));
  EXPECT_EQ(PauseBeforeNextTry(31, kHoldPatience), std::nullopt);
}

}  // namespace
}  // namespace paceline
