#include "controller/core/checkpoint/save_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::string Reason(const std::optional<Refusal>& refusal) {
  return refusal.has_value() ? refusal->reason : "";
}

TEST(SaveOrderTest, OnlyARunningJobWithADirectoryIsSaved) {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  EXPECT_EQ(Reason(RefuseSave(RunningJob(request))), "CHECKPOINTS_OFF");
  EXPECT_EQ(Reason(RefuseSave(NewJob(PlayedRequest(), 1, At(0)))), "JOB_NOT_RUNNING");
  EXPECT_EQ(Reason(RefuseSave(RunningJob())), "");
}

TEST(SaveOrderTest, AnOrderForNowTakesThePlaceOfOneThatWaits) {
  Job job = RunningJob();
  OrderSave(job, false, "by time", At(3));
  OrderSave(job, true, "by a user", At(4));
  EXPECT_EQ(job.checkpoints.order->number, 2);
  EXPECT_TRUE(job.checkpoints.order->now);
  CompleteOrder(job, 1, 20);
  EXPECT_TRUE(IsOrderPending(job)) << "what the first one saved came too late to be now";
}

TEST(SaveOrderTest, AnOrderThatNamesADirectoryTakesThePlaceOfOneThatDoesNot) {
  Job job = RunningJob();
  OrderSave(job, true, "by time", At(3));
  OrderSave(job, false, "by a user", At(4), "/spare/");
  EXPECT_EQ(job.checkpoints.order->number, 2);
  EXPECT_TRUE(job.checkpoints.order->now) << "as the one before";
  EXPECT_EQ(BaseOf(job, 1), "");
  EXPECT_EQ(BaseOf(job, 2), "/spare");
  OrderSave(job, false, "by time", At(5));
  OrderSave(job, false, "by a user", At(6), "/spare");
  EXPECT_EQ(job.checkpoints.order->number, 2);
  OrderSave(job, false, "by a user", At(7), "/other");
  EXPECT_EQ(job.checkpoints.order->number, 3);
  // What the second order has saved meanwhile stays where that order put it.
  SaveAll(job, 20, At(8), /*order=*/2);
  EXPECT_TRUE(IsOrderPending(job));
  SaveAll(job, 40, At(9), /*order=*/3);
  SaveAll(job, 60, At(10));
  ASSERT_EQ(job.checkpoints.records.size(), 3u);
  EXPECT_EQ(DirectoryOf(job, job.checkpoints.records[0]), "/spare/job-1/step-000000000020.g1");
  EXPECT_EQ(DirectoryOf(job, job.checkpoints.records[1]), "/other/job-1/step-000000000040.g1");
  EXPECT_EQ(DirectoryOf(job, job.checkpoints.records[2]), "/ckpt/job-1/step-000000000060.g1");
}

TEST(SaveOrderTest, TheJobsOwnDirectoryIsNoOther) {
  Job job = RunningJob();
  OrderSave(job, false, "by a user", At(3), "/ckpt/");
  EXPECT_EQ(BaseOf(job, 1), "");
}

TEST(SaveOrderTest, DirectoriesThatOrdersHaveNamedAreBounded) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, SaveState::kDurable, 1)}, At(3));
  for (int i = 1; i <= 40; ++i) {
    OrderSave(job, false, "by a user", At(3 + i), absl::StrCat("/spare-", i));
  }
  EXPECT_LE(job.checkpoints.directories.size(), kMaxOrderDirectories);
  EXPECT_EQ(BaseOf(job, 1), "/spare-1") << "a save needs it";
  EXPECT_EQ(BaseOf(job, 40), "/spare-40");
}

TEST(SaveOrderTest, StoppedJobThatCannotBeSavedIsSavedElsewhere) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  TellSaves(job, 1, {Reported(20, SaveState::kFailed, 1)}, At(4));
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_THAT(job.reason, HasSubstr("`paceline checkpoint save job-1 --to DIR`"));
  OrderSave(job, false, "by a user", At(5), "/spare");
  StopIfSaved(job, At(5));
  EXPECT_TRUE(IsOrderPending(job)) << "no other try takes its place";
  SaveAll(job, 40, At(6), /*order=*/2);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "maintenance; saved as /spare/job-1/step-000000000040.g1");
}

TEST(SaveOrderTest, SecondOrderIsTheFirstUntilThatHasEnded) {
  Job job = RunningJob();
  OrderSave(job, true, "first", At(3));
  OrderSave(job, false, "second", At(4));
  EXPECT_EQ(job.checkpoints.order->number, 1);
  EXPECT_EQ(job.checkpoints.order->reason, "first");
  EXPECT_TRUE(job.checkpoints.order->now);
  SaveAll(job, 20, At(5), /*order=*/1);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kComplete);
  EXPECT_EQ(job.checkpoints.order->step, 20);
  OrderSave(job, false, "third", At(6));
  EXPECT_EQ(job.checkpoints.order->number, 2);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kPending);
}

TEST(SaveOrderTest, SaveOfAnotherOrderOrNoneDoesNotCompleteIt) {
  Job job = RunningJob();
  OrderSave(job, false, "asked", At(3));
  SaveAll(job, 20, At(4));
  SaveAll(job, 40, At(5), /*order=*/7);
  EXPECT_TRUE(IsOrderPending(job));
}

TEST(SaveOrderTest, FailedOrSkippedPartFailsTheOrder) {
  for (const SaveState state : {SaveState::kFailed, SaveState::kSkipped}) {
    Job job = RunningJob();
    OrderSave(job, false, "asked", At(3));
    TellSaves(job, 1, {Reported(20, state, 1)}, At(4));
    EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
    EXPECT_THAT(job.checkpoints.order->error, HasSubstr("rank 1 on b"));
  }
}

TEST(SaveOrderTest, DisagreementFailsTheOrderAndIsCountedOnce) {
  Job job = RunningJob();
  OrderSave(job, false, "asked", At(3));
  SaveStatus status = Reported(0, SaveState::kFailed, 1);
  status.failure = SaveFailure::kNotAgreed;
  status.error = "rank 1 did not answer";
  EXPECT_EQ(TellSaves(job, 0, {status}, At(4)), JobChange::kState);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_THAT(job.checkpoints.order->error, HasSubstr("rank 1 did not answer"));
  EXPECT_EQ(TellSaves(job, 1, {status}, At(5)), JobChange::kNone);
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNotAgreed], 1);
  EXPECT_TRUE(job.checkpoints.saves.empty());
}

TEST(SaveOrderTest, DisagreementNamesWhatTheSaveWasForAndWhoIsNotHeardOf) {
  Job job = RunningJob();
  OrderSave(job, false, "every 5m", At(3));
  job.ranks[0].unreachable_since = At(3).steady;
  SaveStatus status = Reported(0, SaveState::kFailed, 1);
  status.failure = SaveFailure::kNotAgreed;
  status.error = "the ranks did not agree";
  TellSaves(job, 1, {status}, At(4));
  EXPECT_EQ(job.checkpoints.last_error,
            "save (every 5m): rank 1 on b: the ranks did not agree; nothing is heard of node a");
}

TEST(SaveOrderTest, OrderWhoseGenerationHasEndedHasFailed) {
  Job job = RunningJob();
  OrderSave(job, false, "asked", At(3));
  FailRank1(job, FailureKind::kSignal, At(4));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_EQ(job.checkpoints.order->error, "the ranks ended before it was complete");
}

TEST(SaveOrderTest, JobIsStoppedWhenItsCheckpointIsComplete) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  EXPECT_EQ(job.state, JobState::kRunning);
  SaveAll(job, 20, At(4), /*order=*/1);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.stop->grace, absl::Seconds(7));
  EXPECT_EQ(job.reason, "maintenance; saved as /ckpt/job-1/step-000000000020.g1");
  Exit(job, 0, FailureKind::kNone, "", At(5));
  Exit(job, 1, FailureKind::kNone, "", At(5));
  EXPECT_EQ(job.state, JobState::kCancelled);
}

TEST(SaveOrderTest, JobIsStoppedAlsoWhenItCannotBeSaved) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  SaveStatus status = Reported(20, SaveState::kFailed, 1);
  status.failure = SaveFailure::kNan;
  status.error = "layers.0.weight has a NaN";
  TellSaves(job, 1, {status}, At(4));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason,
            "maintenance; not saved: save after step 20: rank 1 on b: layers.0.weight has a NaN");
}

TEST(SaveOrderTest, JobThatIsToStopTrainsOnWhileItsDiskIsFullAndStopsWhenItIsSaved) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  EXPECT_EQ(TellSaves(job, 1, {Reported(20, SaveState::kFailed, 1)}, At(4)), JobChange::kState);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.reason,
            "maintenance: trains on and is saved again and again for 30m, as it could not be "
            "saved before it stops: save after step 20: rank 1 on b: the disk is full; mend the "
            "cause, save it elsewhere with `paceline checkpoint save job-1 --to DIR`, or stop it "
            "unsaved with `paceline job cancel`");
  EXPECT_EQ(NextDeadline(job), At(9).steady);
  EXPECT_EQ(TickJob(job, At(8)), JobChange::kNone);
  EXPECT_EQ(TickJob(job, At(9)), JobChange::kState);
  EXPECT_EQ(job.checkpoints.order->number, 2);
  TellSaves(job, 1, {Reported(30, SaveState::kFailed, 2)}, At(10));
  EXPECT_EQ(NextDeadline(job), At(20).steady) << "the pause grows";
  TickJob(job, At(20));
  SaveAll(job, 40, At(21), /*order=*/3);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "maintenance; saved as /ckpt/job-1/step-000000000040.g1");
}

TEST(SaveOrderTest, JobThatCannotBeSavedForLongIsStoppedWithout) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  int64_t order = 1;
  double now = 4;
  for (; job.state == JobState::kRunning && now < 4000; ++now) {
    if (IsOrderPending(job)) {
      order = job.checkpoints.order->number;
      TellSaves(job, 1, {Reported(static_cast<int64_t>(now), SaveState::kFailed, order)}, At(now));
    } else {
      TickJob(job, At(now));
    }
  }
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_NEAR(now, 4 + 30 * 60, 70);
  EXPECT_GT(order, 25);
  EXPECT_THAT(job.reason, HasSubstr("not saved: save after step "));
}

TEST(SaveOrderTest, OrderAfterTheLastStepDoesNotStopAJobThatHoldsItsState) {
  Job job = RunningJob();
  SaveStatus held = Reported(1000, SaveState::kWriting);
  held.error = "the disk is full";
  TellSaves(job, 1, {held}, At(3));
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(4));
  SaveStatus late = Reported(0, SaveState::kFailed, 1);
  late.failure = SaveFailure::kNotAgreed;
  TellSaves(job, 1, {held, late}, At(5));
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_EQ(job.state, JobState::kRunning);
  SaveAll(job, 1000, At(6));
  Exit(job, 0, FailureKind::kNone, "", At(7));
  Exit(job, 1, FailureKind::kNone, "", At(7));
  EXPECT_EQ(job.state, JobState::kSucceeded);
}

TEST(SaveOrderTest, JobThatIsHeldIsCancelledAtOnce) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  TellSaves(job, 1, {Reported(20, SaveState::kFailed, 1)}, At(4));
  CancelJob(job, "given up", absl::Seconds(1), At(5));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "given up");
}

TEST(SaveOrderTest, StopWaitsForAPendingOrderAndNoLongerThanItsPatience) {
  Job job = RunningJob();
  OrderSave(job, false, "by a user", At(3));
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(4));
  EXPECT_EQ(job.checkpoints.order->number, 1);
  const absl::Time deadline = NextDeadline(job);
  EXPECT_EQ(deadline, At(4).steady + absl::Minutes(10));
  EXPECT_EQ(TickJob(job, At(100)), JobChange::kNone);
  EXPECT_EQ(TickJob(job, At(604)), JobChange::kState);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_THAT(job.reason, HasSubstr("not complete within 10m"));
}

TEST(SaveOrderTest, PlainCancelDoesNotWaitForTheSave) {
  Job job = RunningJob();
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  CancelJob(job, "now", absl::Seconds(1), At(4));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "now");
}

TEST(SaveOrderTest, RankThatWasAskedToEndHasTheJobSavedAndStopped) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 3;
  Job job = RunningJob(request);
  TrainerReport report = PlayedReport(job, 1, TrainerState::kRunning);
  report.asked_to_end = true;
  EXPECT_EQ(Tell(job, report, At(3)), JobChange::kState);
  EXPECT_EQ(job.checkpoints.order->reason, "rank 1 on b was asked to end (SIGTERM)");
  EXPECT_EQ(Tell(job, report, At(4)), JobChange::kNone);
  SaveAll(job, 20, At(5), /*order=*/1);
  Exit(job, 0, FailureKind::kNone, "", At(6));
  Exit(job, 1, FailureKind::kSignal, "killed by signal 15", At(6));
  EXPECT_EQ(job.state, JobState::kCancelled);
  EXPECT_EQ(job.reason,
            "rank 1 on b was asked to end (SIGTERM); saved as /ckpt/job-1/step-000000000020.g1");
}

TEST(SaveOrderTest, RankThatDiesWhileTheJobIsSavedToStopDoesNotRestartIt) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 3;
  Job job = RunningJob(request);
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(3));
  FailRank1(job, FailureKind::kSignal, At(4));
  EXPECT_EQ(job.state, JobState::kFailed);
}

TEST(SaveOrderTest, RankOfAStartingJobThatWasAskedToEndStopsItAtOnce) {
  Job job = NewJob(PlayedRequest(), 1, At(0));
  PlaceOnBoth(job, At(1));
  TrainerReport report = PlayedReport(job, 1, TrainerState::kReady);
  report.asked_to_end = true;
  Tell(job, report, At(3));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_FALSE(job.checkpoints.order.has_value());
}

}  // namespace
}  // namespace paceline
