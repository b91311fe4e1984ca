#include "controller/core/progress_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId kJob("job-1");

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(ProgressPaceTest, WhatComesTooSoonWaitsForTheEndOfThePeriodAndIsNamedOnce) {
  ProgressPace pace(absl::Seconds(1));
  EXPECT_TRUE(pace.MayShow(kJob, At(10)));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.2)));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.4)));
  EXPECT_EQ(pace.NextDue(), At(11));
  EXPECT_THAT(pace.TakeDue(At(10.9)), IsEmpty());
  EXPECT_THAT(pace.TakeDue(At(11)), ElementsAre(kJob));
  EXPECT_EQ(pace.NextDue(), absl::InfiniteFuture());
}

TEST(ProgressPaceTest, OneThatIsShownMeanwhileDoesNotWait) {
  ProgressPace pace(absl::Seconds(1));
  pace.Shown(kJob, At(10));
  EXPECT_FALSE(pace.MayShow(kJob, At(10.5)));
  pace.Shown(kJob, At(10.7));
  EXPECT_EQ(pace.NextDue(), absl::InfiniteFuture());
  EXPECT_FALSE(pace.MayShow(kJob, At(11.5))) << "the period begins anew";
  EXPECT_TRUE(pace.MayShow(kJob, At(11.7)));
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
}

}  // namespace
}  // namespace paceline
