#include "controller/core/job/job_account.h"

#include <gtest/gtest.h>

#include <numeric>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/testing/member_job.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

double Of(const JobAccount& account, TimeCategory category) {
  return account.seconds()[static_cast<size_t>(category)];
}

double Sum(const JobAccount& account) {
  return std::accumulate(account.seconds().begin(), account.seconds().end(), 0.0);
}

void TellStep(Job& job, int64_t step, Moment now) {
  for (int rank = 0; rank < 2; ++rank) {
    TrainerReport report = PlayedReport(job, rank, TrainerState::kRunning);
    report.progress.step = step;
    Tell(job, report, now);
  }
}

// Both ranks report `count` steps.
void TakeSteps(JobAccount& account, int count, double total_s, double wait_s = 0) {
  for (int i = 0; i < 2 * count; ++i) account.TakeStep(total_s, wait_s);
}

JobRequest Restarting() {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  return request;
}

TEST(JobAccountTest, EveryMomentHasItsCategory) {
  Job job = NewJob(PlayedRequest(), 1, At(0));
  JobAccount account(job, At(0));
  PlaceOnBoth(job, At(3));
  account.Follow(job, At(3));
  RunPlaced(job, At(8));
  account.Follow(job, At(8));
  TakeSteps(account, 40, 1, 0.25);
  CancelJob(job, "enough", absl::Seconds(5), At(50));
  account.Follow(job, At(50));
  Exit(job, 0, FailureKind::kNone, "", At(51));
  Exit(job, 1, FailureKind::kNone, "", At(51));
  account.Follow(job, At(51));
  account.Follow(job, At(500));
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kQueued), 3);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kStartup), 5);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kProductive), 30);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kDataWait), 10);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kOutsideSteps), 2);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kStopping), 1);
  EXPECT_DOUBLE_EQ(Sum(account), 51);
}

TEST(JobAccountTest, StepsThatAreToldLateStillCount) {
  Job job = RunningJob();
  JobAccount account(job, At(0));
  account.Follow(job, At(9));
  EXPECT_DOUBLE_EQ(Sum(account), 0) << "it may have been in a step";
  TakeSteps(account, 1, 9);
  account.Follow(job, At(9));
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kProductive), 9);
}

TEST(JobAccountTest, TimeWithoutStepsIsOutsideOfThem) {
  Job job = RunningJob();
  JobAccount account(job, At(0));
  TakeSteps(account, 1, 2);
  account.Follow(job, At(100));
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kProductive), 2);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kOutsideSteps), 100 - 2 - 10 - 3 * 2);
}

TEST(JobAccountTest, MoreTimeInStepsThanHasPassedIsNotCounted) {
  Job job = RunningJob();
  JobAccount account(job, At(0));
  TakeSteps(account, 50, 1);
  account.Follow(job, At(10));
  EXPECT_DOUBLE_EQ(Sum(account), 10);
}

TEST(JobAccountTest, FromAFailureToTrainingAgainIsRecovery) {
  Job job = RunningJob(Restarting());
  JobAccount account(job, At(2));
  Exit(job, 1, FailureKind::kSignal, "killed", At(10));
  account.Follow(job, At(10));
  Exit(job, 0, FailureKind::kNone, "", At(11));
  account.Follow(job, At(11));
  ASSERT_EQ(job.state, JobState::kQueued);
  PlaceOnBoth(job, At(14));
  account.Follow(job, At(14));
  RunPlaced(job, At(20));
  account.Follow(job, At(20));
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kRecovery), 10);
  // The next requeue is not a restart.
  RequeueJob(job, "the node is drained", absl::ZeroDuration(), At(30));
  account.Follow(job, At(30));
  Exit(job, 0, FailureKind::kNone, "", At(32));
  Exit(job, 1, FailureKind::kNone, "", At(32));
  account.Follow(job, At(32));
  account.Follow(job, At(37));
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kStopping), 2);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kQueued), 5);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kRecovery), 10);
}

TEST(JobAccountTest, StepsAfterTheCheckpointAreLostByARestart) {
  Job job = NewJob(Restarting(), 1, At(0));
  JobAccount account(job, At(0));
  PlaceOnBoth(job, At(1));
  RunPlaced(job, At(2));
  account.Follow(job, At(2));
  EXPECT_EQ(account.progressed(), absl::InfinitePast());
  TellStep(job, 20, At(3));
  account.Follow(job, At(3));
  SaveAll(job, 20, At(4));
  TellStep(job, 33, At(5));
  account.Follow(job, At(5));
  EXPECT_EQ(account.progressed(), At(5).wall);
  FailRank1(job, FailureKind::kSignal, At(6));
  account.Follow(job, At(6));
  PlaceOnBoth(job, At(7));
  account.Follow(job, At(7));
  ASSERT_EQ(job.restored_from, DirectoryOf(job, {20, 1}, ""));
  EXPECT_EQ(account.steps_lost(), 13);
  RunPlaced(job, At(8));
  TellStep(job, 25, At(9));
  account.Follow(job, At(9));
  EXPECT_EQ(account.steps_executed(), 33 + 5);
  EXPECT_EQ(account.steps_lost(), 13);
}

TEST(JobAccountTest, StepsOfAJobThatIsPlacedAtOnceAllCount) {
  Job job = NewJob(PlayedRequest(), 1, At(0));
  PlaceOnBoth(job, At(0));
  JobAccount account(job, At(0));
  RunPlaced(job, At(1));
  TellStep(job, 7, At(2));
  account.Follow(job, At(2));
  EXPECT_EQ(account.steps_executed(), 7);
  EXPECT_EQ(account.progressed(), At(2).wall);
}

TEST(JobAccountTest, WithoutACheckpointAllIsLost) {
  JobRequest request = Restarting();
  request.checkpoints.directory.clear();
  Job job = NewJob(request, 1, At(0));
  JobAccount account(job, At(0));
  PlaceOnBoth(job, At(1));
  RunPlaced(job, At(2));
  TellStep(job, 8, At(3));
  account.Follow(job, At(3));
  FailRank1(job, FailureKind::kSignal, At(4));
  PlaceOnBoth(job, At(5));
  account.Follow(job, At(5));
  EXPECT_EQ(account.steps_lost(), 8);
}

// Its own checkpoint is gone, and the one that it began with counts steps of another job.
TEST(JobAccountTest, WhatIsLostByARestartFromAnothersCheckpointIsNotKnown) {
  JobRequest request = Restarting();
  request.max_restarts = 2;
  request.resume_from = "/shared/checkpoints/another/step-40";
  Job job = NewJob(request, 1, At(0));
  JobAccount account(job, At(0));
  PlaceOnBoth(job, At(1));
  ASSERT_EQ(job.restored_from, request.resume_from);
  RunPlaced(job, At(2));
  TellStep(job, 60, At(3));
  SaveAll(job, 60, At(4));
  account.Follow(job, At(4));
  FailRank1(job, FailureKind::kSignal, At(5));
  PlaceOnBoth(job, At(6));
  account.Follow(job, At(6));
  ASSERT_EQ(job.restored_from, DirectoryOf(job, {60, 1}, ""));
  RunPlaced(job, At(7));
  TellStep(job, 70, At(8));
  account.Follow(job, At(8));
  job.checkpoints.records.clear();
  FailRank1(job, FailureKind::kSignal, At(9));
  PlaceOnBoth(job, At(10));
  account.Follow(job, At(10));
  ASSERT_EQ(job.restored_from, request.resume_from);
  EXPECT_EQ(account.steps_lost(), 0);
}

TEST(JobAccountTest, RecoveryLosesWhatTheSurvivorsHadNot) {
  MemberJob played;
  JobAccount account(played.job, At(1));
  played.TrainAll(2, 10);
  account.Follow(played.job, At(2));
  played.TrainAll(3, 14);
  account.Follow(played.job, At(3));
  EXPECT_EQ(account.steps_executed(), 4) << "what was before does not count";
  MembershipChange change;
  change.generation = Generation(2);
  change.begun = At(4).wall;
  played.job.generation = Generation(2);
  played.job.state = JobState::kRecovering;
  played.job.recovery.history.push_back(change);
  account.Follow(played.job, At(4));
  EXPECT_EQ(account.steps_lost(), 0) << "not known yet";
  played.job.recovery.history.back().ended = At(5).wall;
  played.job.recovery.history.back().step = 12;
  played.job.state = JobState::kRunning;
  account.Follow(played.job, At(5));
  account.Follow(played.job, At(6));
  EXPECT_EQ(account.steps_lost(), 2);
  EXPECT_DOUBLE_EQ(Of(account, TimeCategory::kRecovery), 1);
}

}  // namespace
}  // namespace paceline
