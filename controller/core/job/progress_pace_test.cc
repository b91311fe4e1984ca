#include "controller/core/job/progress_pace.h"

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

TEST(ProgressPaceTest, WhatComesTooSoonWaitsForTheJobsTurnAndIsNamedOnce) {
  ProgressPace pace(absl::Seconds(1));
  EXPECT_TRUE(pace.MayShow(kJob, At(10)));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.2)));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.4)));
  const absl::Time due = pace.NextDue();
  EXPECT_GT(due, At(10.5));
  EXPECT_LE(due, At(11.5));
  EXPECT_THAT(pace.TakeDue(due - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(pace.TakeDue(due), ElementsAre(kJob));
  EXPECT_EQ(pace.NextDue(), absl::InfiniteFuture());
}

TEST(ProgressPaceTest, ProgressThatNeverEndsIsShownOnceInAPeriodHoweverLateThatIs) {
  ProgressPace pace(absl::Seconds(1));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10)));
  absl::Time due = pace.NextDue();
  for (const double late : {0.3, 0.0, 0.4, 0.01}) {
    const absl::Time now = due + absl::Seconds(late);
    EXPECT_THAT(pace.TakeDue(now), ElementsAre(kJob));
    pace.Shown(kJob, now);
    EXPECT_FALSE(pace.MayShow(kJob, now));
    EXPECT_EQ(pace.NextDue(), due + absl::Seconds(1));
    due = pace.NextDue();
  }
}

TEST(ProgressPaceTest, JobsThatWereShownTogetherAreShownOneAfterTheOther) {
  ProgressPace pace(absl::Seconds(1));
  constexpr int kJobs = 200;
  for (int n = 0; n < kJobs; ++n) {
    pace.Shown(JobId(std::to_string(n)), At(10));
    EXPECT_FALSE(pace.MayShow(JobId(std::to_string(n)), At(10)));
  }
  size_t shown = 0;
  int turns = 0;
  for (; pace.NextDue() < absl::InfiniteFuture(); ++turns) {
    const std::vector<JobId> due = pace.TakeDue(pace.NextDue());
    EXPECT_LE(due.size(), 1.2 * kJobs / ProgressPace::kTurnsInPeriod) << turns;
    shown += due.size();
  }
  EXPECT_EQ(shown, kJobs);
  EXPECT_EQ(turns, ProgressPace::kTurnsInPeriod);
}

TEST(ProgressPaceTest, OneThatIsShownMeanwhileDoesNotWait) {
  ProgressPace pace(absl::Seconds(1));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.5)));
  const absl::Time due = pace.NextDue();
  pace.Shown(kJob, due - absl::Milliseconds(1));
  EXPECT_EQ(pace.NextDue(), absl::InfiniteFuture());
  EXPECT_FALSE(pace.MayShow(kJob, due + absl::Milliseconds(500))) << "this turn is left out";
  EXPECT_TRUE(pace.MayShow(kJob, due + absl::Seconds(1)));
}

TEST(ProgressPaceTest, JobsDoNotWaitForEachOther) {
  ProgressPace pace(absl::Seconds(1));
  pace.Shown(kJob, At(10));
  EXPECT_TRUE(pace.MayShow(JobId("job-2"), At(10.1)));
}

TEST(ProgressPaceTest, OneThatIsForgottenIsNotNamed) {
  ProgressPace pace(absl::Seconds(1));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.5)));
  pace.Forget(kJob);
  EXPECT_THAT(pace.TakeDue(At(12)), IsEmpty());
  pace.Shown(kJob, At(20));
  pace.Forget(kJob);
  EXPECT_TRUE(pace.MayShow(kJob, At(20.1))) << "nothing is known of it";
}

}  // namespace
}  // namespace paceline
