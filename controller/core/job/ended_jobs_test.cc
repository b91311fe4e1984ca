#include "controller/core/job/ended_jobs.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(EndedJobsTest, TheOneThatEndedFirstIsTheOldest) {
  EndedJobs ended;
  ended.Set(JobId("a"), At(3), 1);
  ended.Set(JobId("b"), At(1), 2);
  ended.Set(JobId("c"), At(2), 4);
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended.ranks(), 7u);
}

TEST(EndedJobsTest, OneThatGoesOnIsNotAmongThem) {
  EndedJobs ended;
  ended.Set(JobId("a"), At(1), 5);
  ended.Set(JobId("b"), At(2), 2);
  ended.Remove(JobId("a"));
  ended.Remove(JobId("unknown"));
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.ranks(), 2u);
}

TEST(EndedJobsTest, OneThatEndsAgainIsAsOldAsItsLastEnd) {
  EndedJobs ended;
  ended.Set(JobId("a"), At(1), 5);
  ended.Set(JobId("b"), At(2), 1);
  ended.Set(JobId("a"), At(3), 8);
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended.ranks(), 9u);
}

}  // namespace
}  // namespace paceline
