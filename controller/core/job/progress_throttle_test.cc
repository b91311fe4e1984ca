#include "controller/core/job/progress_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId kJob("job-1");

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(ProgressThrottleTest, WhatComesTooSoonWaitsForTheJobsTurnAndIsNamedOnce) {
  ProgressThrottle throttle(absl::Seconds(1));
  EXPECT_TRUE(throttle.MayShow(kJob, At(10)));
  throttle.Shown(kJob, At(10));
  EXPECT_FALSE(throttle.MayShow(kJob, At(10.2)));
  EXPECT_FALSE(throttle.MayShow(kJob, At(10.4)));
  const absl::Time due = throttle.NextDue();
  EXPECT_GT(due, At(10.5));
  EXPECT_LE(due, At(11.5));
  EXPECT_THAT(throttle.TakeDue(due - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(throttle.TakeDue(due), ElementsAre(kJob));
  EXPECT_EQ(throttle.NextDue(), absl::InfiniteFuture());
}

TEST(ProgressThrottleTest, ProgressThatNeverEndsIsShownOnceInAPeriodHoweverLateThatIs) {
  ProgressThrottle throttle(absl::Seconds(1));
  throttle.Shown(kJob, At(10));
  EXPECT_FALSE(throttle.MayShow(kJob, At(10)));
  absl::Time due = throttle.NextDue();
  for (const double late : {0.3, 0.0, 0.4, 0.01}) {
    const absl::Time now = due + absl::Seconds(late);
    EXPECT_THAT(throttle.TakeDue(now), ElementsAre(kJob));
    throttle.Shown(kJob, now);
    EXPECT_FALSE(throttle.MayShow(kJob, now));
    EXPECT_EQ(throttle.NextDue(), due + absl::Seconds(1));
    due = throttle.NextDue();
  }
}

TEST(ProgressThrottleTest, JobsThatWereShownTogetherAreShownOneAfterTheOther) {
  ProgressThrottle throttle(absl::Seconds(1));
  constexpr int kJobs = 200;
  for (int n = 0; n < kJobs; ++n) {
    throttle.Shown(JobId(std::to_string(n)), At(10));
    EXPECT_FALSE(throttle.MayShow(JobId(std::to_string(n)), At(10)));
  }
  size_t shown = 0;
  int turns = 0;
  for (; throttle.NextDue() < absl::InfiniteFuture(); ++turns) {
    const std::vector<JobId> due = throttle.TakeDue(throttle.NextDue());
    EXPECT_LE(due.size(), 1.2 * kJobs / ProgressThrottle::kTurnsInPeriod) << turns;
    shown += due.size();
  }
  EXPECT_EQ(shown, kJobs);
  EXPECT_EQ(turns, ProgressThrottle::kTurnsInPeriod);
}

TEST(ProgressThrottleTest, OneThatIsShownMeanwhileDoesNotWait) {
  ProgressThrottle throttle(absl::Seconds(1));
  throttle.Shown(kJob, At(10));
  EXPECT_FALSE(throttle.MayShow(kJob, At(10.5)));
  const absl::Time due = throttle.NextDue();
  throttle.Shown(kJob, due - absl::Milliseconds(1));
  EXPECT_EQ(throttle.NextDue(), absl::InfiniteFuture());
  EXPECT_FALSE(throttle.MayShow(kJob, due + absl::Milliseconds(500))) << "this turn is left out";
  EXPECT_TRUE(throttle.MayShow(kJob, due + absl::Seconds(1)));
}

TEST(ProgressThrottleTest, JobsDoNotWaitForEachOther) {
  ProgressThrottle throttle(absl::Seconds(1));
  throttle.Shown(kJob, At(10));
  EXPECT_TRUE(throttle.MayShow(JobId("job-2"), At(10.1)));
}

TEST(ProgressThrottleTest, OneThatIsForgottenIsNotNamed) {
  ProgressThrottle throttle(absl::Seconds(1));
  throttle.Shown(kJob, At(10));
  EXPECT_FALSE(throttle.MayShow(kJob, At(10.5)));
  throttle.Forget(kJob);
  EXPECT_THAT(throttle.TakeDue(At(12)), IsEmpty());
  throttle.Shown(kJob, At(20));
  throttle.Forget(kJob);
  EXPECT_TRUE(throttle.MayShow(kJob, At(20.1))) << "nothing is known of it";
}

}  // namespace
}  // namespace paceline
