#include <gtest/gtest.h>

#include "controller/core/recovery/restart.h"

namespace paceline {
namespace {

const Moment kNow{absl::UnixEpoch() + absl::Hours(1), absl::FromUnixSeconds(1700000000)};
constexpr int64_t kUsed = 1000;

JobRequest Request() {
  JobRequest request;
  request.id = JobId("job-1");
  request.ranks = 1;
  request.checkpoints.directory = "/ckpt";
  return request;
}

Job PlacedJob() {
  Job job = NewJob(Request(), 1, kNow);
  PlaceJob(job, {{NodeName("a"), 0}}, kNow);
  return job;
}

TEST(RestoredTest, JobThatHadRanksStopsAndStartsAsALaterGeneration) {
  Job job = PlacedJob();
  ASSERT_EQ(job.generation, Generation(1));
  TakeUpAfterRestoration(job, Generation(kUsed), kNow);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.ranks[0].report.id.generation, Generation(1));

  TrainerReport ended;
  ended.id = job.ranks[0].report.id;
  ended.state = TrainerState::kExited;
  ended.exit = TrainerExit();
  ApplyReport(job, NodeName("a"), ended, kNow);
  ASSERT_EQ(job.state, JobState::kQueued);
  // Checkpoints of generations that this state does not know are found, too.
  ASSERT_TRUE(job.checkpoints.settlement.has_value());
  EXPECT_EQ(job.checkpoints.settlement->up_to, Generation(kUsed));
  EXPECT_EQ(job.restarts, 0);

  PlaceJob(job, {{NodeName("a"), 0}}, kNow);
  EXPECT_EQ(job.generation, Generation(kUsed + 1));
  EXPECT_EQ(job.ranks[0].report.id.generation, Generation(kUsed + 1));
  EXPECT_EQ(NextUnused(job), Generation(kUsed + 2));
}

TEST(RestoredTest, QueuedJobLooksThroughItsDirectoryFirst) {
  Job job = NewJob(Request(), 1, kNow);
  TakeUpAfterRestoration(job, Generation(kUsed), kNow);
  EXPECT_EQ(job.state, JobState::kQueued);
  ASSERT_TRUE(job.checkpoints.settlement.has_value());
  EXPECT_EQ(job.checkpoints.settlement->up_to, Generation(kUsed));
}

TEST(RestoredTest, EndedJobStaysAsItIsUntilItIsResumed) {
  Job job = PlacedJob();
  job.state = JobState::kSucceeded;
  TakeUpAfterRestoration(job, Generation(kUsed), kNow);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.generation, Generation(1));
  EXPECT_FALSE(job.checkpoints.settlement.has_value());
  ResumeJob(job, Request(), "");
  PlaceJob(job, {{NodeName("a"), 0}}, kNow);
  EXPECT_EQ(job.generation, Generation(kUsed + 1));
}

TEST(RestoredTest, OlderRestorationTakesNothingBack) {
  Job job = PlacedJob();
  job.generation = Generation(5000);
  TakeUpAfterRestoration(job, Generation(kUsed), kNow);
  EXPECT_EQ(NextUnused(job), Generation(5001));
}

}  // namespace
}  // namespace paceline
