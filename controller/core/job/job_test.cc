#include "controller/core/job/job.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

const NodeName kA("a");
const NodeName kB("b");

// Two ranks, one on each node.
Job PlacedJob() {
  Job job = NewJob({JobId("job-1"), "digits", 2, Device::kCpu, "spec"}, 1, At(0));
  PlaceJob(job, {{kA, 0}, {kB, 0}}, At(1));
  return job;
}

TrainerReport Report(int rank, TrainerState state) {
  TrainerReport report;
  report.id = {JobId("job-1"), Generation(1), Rank(rank)};
  report.state = state;
  report.pid = 100 + rank;
  if (state != TrainerState::kStarting) report.store_address = rank == 0 ? "a:1" : "b:2";
  return report;
}

TrainerReport Exit(int rank, FailureKind failure, const std::string& message = "") {
  TrainerReport report = Report(rank, TrainerState::kExited);
  report.exit = TrainerExit();
  report.exit->failure = failure;
  report.exit->message = message;
  return report;
}

Job RunningJob() {
  Job job = PlacedJob();
  ApplyReport(job, kA, Report(0, TrainerState::kRunning), At(2));
  ApplyReport(job, kB, Report(1, TrainerState::kRunning), At(3));
  return job;
}

TEST(JobTest, RunsWhenEveryRankTrainsAndSucceedsWhenEveryRankHasFinished) {
  Job job = PlacedJob();
  EXPECT_EQ(job.state, JobState::kStarting);
  ApplyReport(job, kA, Report(0, TrainerState::kRunning), At(2));
  EXPECT_EQ(job.state, JobState::kStarting);
  ApplyReport(job, kB, Report(1, TrainerState::kRunning), At(3));
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.started, At(3).wall);
  EXPECT_EQ(ApplyReport(job, kA, Exit(0, FailureKind::kNone), At(4)), JobChange::kTrainer);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(ApplyReport(job, kB, Exit(1, FailureKind::kNone), At(5)), JobChange::kState);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.ended, At(5).wall);
}

TEST(JobTest, StoreAddressIsRankZerosOnceAllAreReady) {
  Job job = PlacedJob();
  ApplyReport(job, kA, Report(0, TrainerState::kReady), At(2));
  EXPECT_EQ(StoreAddress(job), "");
  ApplyReport(job, kB, Report(1, TrainerState::kReady), At(2));
  EXPECT_EQ(StoreAddress(job), "a:1");
}

TEST(JobTest, FailureStopsTheOthersThenFailsTheJob) {
  Job job = RunningJob();
  ApplyReport(job, kB, Exit(1, FailureKind::kSignal, "killed by SIGKILL"), At(4));
  EXPECT_EQ(job.state, JobState::kStopping);
  ASSERT_TRUE(job.stop.has_value());
  EXPECT_EQ(job.stop->grace, kFailureGrace);
  ApplyReport(job, kA, Exit(0, FailureKind::kNone), At(4.5));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure->rank, Rank(1));
  EXPECT_EQ(job.failure->node, kB);
  EXPECT_EQ(job.reason, "rank 1 on b: killed by SIGKILL");
}

TEST(JobTest, OfAnEndedJobOnlyItsFailureKeepsWhatIsLong) {
  Job job = RunningJob();
  TrainerReport failed = Exit(0, FailureKind::kSignal, "killed by signal 9");
  failed.exit->log_tail = "the cause";
  failed.saves = {SaveStatus()};
  ApplyReport(job, kA, failed, At(4));
  EXPECT_EQ(job.ranks[0].report.exit->log_tail, "the cause");
  TrainerReport echo = Exit(1, FailureKind::kCollective, "lost rank 0");
  echo.exit->log_tail = "the echo";
  ApplyReport(job, kB, echo, At(5));
  ASSERT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure->exit.log_tail, "the cause");
  for (const RankState& rank : job.ranks) {
    EXPECT_EQ(rank.report.exit->log_tail, "");
    EXPECT_TRUE(rank.report.saves.empty());
  }
  EXPECT_EQ(job.ranks[0].report.exit->message, "killed by signal 9");
}

TEST(JobTest, EchoThatArrivesFirstGivesWayToTheCause) {
  Job job = RunningJob();
  ApplyReport(job, kA, Exit(0, FailureKind::kCollective, "connection closed by peer"), At(4));
  EXPECT_EQ(job.failure->rank, Rank(0));
  ApplyReport(job, kB, Exit(1, FailureKind::kError, "boom"), At(4.1));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure->rank, Rank(1));
  EXPECT_EQ(job.failure->exit.message, "boom");
}

TEST(JobTest, CauseIsNotReplacedByALaterEchoOrError) {
  Job job = RunningJob();
  ApplyReport(job, kA, Exit(0, FailureKind::kError, "first"), At(4));
  ApplyReport(job, kB, Exit(1, FailureKind::kCollective, "echo"), At(4.1));
  EXPECT_EQ(job.failure->exit.message, "first");
}

TEST(JobTest, StopEndsAtItsDeadlineWhenANodeDoesNotConfirm) {
  Job job = RunningJob();
  ApplyReport(job, kA, Exit(0, FailureKind::kSignal), At(4));
  const absl::Time deadline = NextDeadline(job);
  EXPECT_LE(deadline, At(6).steady) << "a failed job must end within two seconds";
  EXPECT_EQ(TickJob(job, At(4.1)), JobChange::kNone);
  EXPECT_EQ(TickJob(job, {deadline, At(6).wall}), JobChange::kState);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(NextDeadline(job), absl::InfiniteFuture());
}

TEST(JobTest, UnreachableNodeIsBlamedWhenTheOthersOnlyEcho) {
  Job job = RunningJob();
  ApplyReport(job, kA, Exit(0, FailureKind::kCollective, "connection reset"), At(4));
  TickJob(job, {NextDeadline(job), At(6).wall});
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.failure->rank, Rank(1));
  EXPECT_EQ(job.failure->exit.failure, FailureKind::kLost);
  EXPECT_EQ(job.reason,
            "rank 1 on b: node b does not answer: what became of the trainer is unknown");
  EXPECT_EQ(job.ranks[1].report.state, TrainerState::kExited) << "no rank stays running for ever";
}

TEST(JobTest, QueuedJobIsCancelledAtOnceARunningOneWhenItsRanksAreGone) {
  Job queued = NewJob({JobId("job-1"), "digits", 2, Device::kCpu, ""}, 1, At(0));
  CancelJob(queued, "not needed", absl::Seconds(5), At(1));
  EXPECT_EQ(queued.state, JobState::kCancelled);

  Job job = RunningJob();
  CancelJob(job, "not needed", absl::Seconds(5), At(4));
  EXPECT_EQ(job.state, JobState::kStopping);
  ApplyReport(job, kA, Exit(0, FailureKind::kNone), At(5));
  EXPECT_EQ(job.state, JobState::kStopping);
  ApplyReport(job, kB, Exit(1, FailureKind::kCollective), At(5));
  EXPECT_EQ(job.state, JobState::kCancelled);
  EXPECT_EQ(job.reason, "not needed");
  EXPECT_FALSE(job.failure.has_value());
}

TEST(JobTest, SecondCancelChangesNothing) {
  Job job = RunningJob();
  CancelJob(job, "first", absl::Seconds(5), At(4));
  EXPECT_EQ(CancelJob(job, "second", absl::Seconds(50), At(5)), JobChange::kNone);
  EXPECT_EQ(job.reason, "first");
}

TEST(JobTest, ASecondCancelMayBeSooner) {
  Job job = RunningJob();
  CancelJob(job, "first", absl::Seconds(50), At(4));
  EXPECT_EQ(CancelJob(job, "second", absl::Seconds(1), At(5)), JobChange::kState);
  EXPECT_EQ(job.stop->grace, absl::Seconds(1));
  EXPECT_LT(job.stop->deadline, At(4).steady + absl::Seconds(50));
  EXPECT_EQ(job.reason, "first");
}

TEST(JobTest, ReportsOfOtherGenerationsNodesOrRanksChangeNothing) {
  Job job = RunningJob();
  TrainerReport stale = Exit(0, FailureKind::kSignal);
  stale.id.generation = Generation(7);
  EXPECT_EQ(ApplyReport(job, kA, stale, At(4)), JobChange::kNone);
  EXPECT_EQ(ApplyReport(job, kB, Exit(0, FailureKind::kSignal), At(4)), JobChange::kNone);
  TrainerReport outside = Exit(0, FailureKind::kSignal);
  outside.id.rank = Rank(2);
  EXPECT_EQ(ApplyReport(job, kA, outside, At(4)), JobChange::kNone);
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(JobTest, TrainerThatWasStartedAgainIsLost) {
  Job job = RunningJob();
  TrainerReport again = Report(1, TrainerState::kStarting);
  again.pid = 999;
  ApplyReport(job, kB, again, At(4));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.failure->exit.failure, FailureKind::kLost);
}

TEST(JobTest, LosingANodeFailsTheJobsThatRanThere) {
  Job job = RunningJob();
  EXPECT_EQ(LoseNode(job, NodeName("c"), "gone", At(4)), JobChange::kNone);
  EXPECT_EQ(LoseNode(job, kB, "gone", At(4)), JobChange::kState);
  EXPECT_EQ(job.failure->rank, Rank(1));
}

// A job of thousands of ranks is neither stored nor sent to its nodes for each rank that starts.
TEST(JobTest, WhatOneOfManyDoesWhileTheyStartIsNotStored) {
  Job job = PlacedJob();
  EXPECT_EQ(ApplyReport(job, kA, Report(0, TrainerState::kReady), At(2)), JobChange::kProgress);
  EXPECT_EQ(ApplyReport(job, kB, Report(1, TrainerState::kReady), At(2)), JobChange::kState)
      << "now all have the address";
  EXPECT_EQ(ApplyReport(job, kA, Report(0, TrainerState::kRunning), At(3)), JobChange::kProgress);
  EXPECT_EQ(ApplyReport(job, kB, Report(1, TrainerState::kRunning), At(3)), JobChange::kState);
  EXPECT_EQ(job.state, JobState::kRunning);
  Job failing = PlacedJob();
  EXPECT_EQ(ApplyReport(failing, kA, Exit(0, FailureKind::kSignal), At(2)), JobChange::kState);
}

TEST(JobTest, ProgressIsShownNotStored) {
  Job job = RunningJob();
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.progress.step = 10;
  EXPECT_EQ(ApplyReport(job, kA, report, At(4)), JobChange::kProgress);
  EXPECT_EQ(ApplyReport(job, kA, report, At(5)), JobChange::kNone);
}

TEST(JobTest, SummaryIsWhatEveryRankHasDone) {
  Job job = RunningJob();
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.progress = {10, 2, absl::ZeroDuration(), 1.0, absl::Milliseconds(50), 100};
  ApplyReport(job, kA, report, At(4));
  report = Report(1, TrainerState::kRunning);
  report.progress = {8, 2, absl::ZeroDuration(), 2.0, absl::Milliseconds(50), 50};
  ApplyReport(job, kB, report, At(4));
  const JobProgress sum = Summarize(job, At(13).wall);
  EXPECT_EQ(sum.step, 8);
  EXPECT_DOUBLE_EQ(sum.loss, 1.5);
  EXPECT_DOUBLE_EQ(sum.samples_per_second, 150);
  EXPECT_EQ(sum.training, absl::Seconds(10));
}

TEST(JobTest, ARankBeforeItsFirstStepHasNoLoss) {
  Job job = RunningJob();
  EXPECT_EQ(Summarize(job, At(4).wall).loss, 0) << "nobody has one";
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.progress = {10, 2, absl::ZeroDuration(), 1.0, absl::Milliseconds(50), 100};
  ApplyReport(job, kA, report, At(4));
  EXPECT_DOUBLE_EQ(Summarize(job, At(4).wall).loss, 1);
}

TEST(JobTest, RatesAndLossesOfRanksThatAreNotHeardOfAreNotThoseOfNow) {
  Job job = RunningJob();
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.progress = {10, 2, absl::ZeroDuration(), 1.0, absl::Milliseconds(50), 100};
  ApplyReport(job, kA, report, At(4));
  report = Report(1, TrainerState::kRunning);
  report.progress = {8, 2, absl::ZeroDuration(), 2.0, absl::Milliseconds(50), 50};
  report.figures.mfu = 0.5;
  ApplyReport(job, kB, report, At(4));
  EXPECT_EQ(job.ranks[1].heard_wall, At(4).wall);
  job.ranks[1].unreachable_since = At(5).steady;
  JobProgress sum = Summarize(job, At(6).wall);
  EXPECT_DOUBLE_EQ(sum.loss, 1);
  EXPECT_DOUBLE_EQ(sum.samples_per_second, 100);
  EXPECT_FALSE(sum.mfu.has_value());
  job.ranks[0].unreachable_since = At(5).steady;
  sum = Summarize(job, At(6).wall);
  EXPECT_DOUBLE_EQ(sum.loss, 1.5) << "nobody knows more";
  EXPECT_DOUBLE_EQ(sum.samples_per_second, 0);
}

TEST(JobTest, RanksThatAreNotHeardOfDoNotHoldTheStepBackThatIsTold) {
  Job job = RunningJob();
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.progress.step = 10;
  ApplyReport(job, kA, report, At(4));
  report = Report(1, TrainerState::kRunning);
  report.progress.step = 8;
  ApplyReport(job, kB, report, At(4));
  job.ranks[1].unreachable_since = At(5).steady;
  EXPECT_EQ(Summarize(job, At(6).wall).step, 10);
  job.ranks[0].unreachable_since = At(6).steady;
  EXPECT_EQ(Summarize(job, At(7).wall).step, 8) << "nobody knows more";
}

TEST(JobTest, WithSlipstreamTheJobIsWhereTheRankIsThatKnowsMost) {
  Job job = RunningJob();
  job.plan.slipstream = SlipstreamChoice();
  for (const int64_t step : {10, 8}) {
    TrainerReport report = Report(step == 10 ? 0 : 1, TrainerState::kRunning);
    report.progress.step = step;
    ApplyReport(job, step == 10 ? kA : kB, report, At(4));
  }
  EXPECT_EQ(Summarize(job, At(13).wall).step, 10);
}

TEST(JobTest, TokensAddUpAndMfuIsTheMeanOfThoseThatKnowIt) {
  Job job = RunningJob();
  EXPECT_FALSE(Summarize(job, At(4).wall).mfu.has_value());
  TrainerReport report = Report(0, TrainerState::kRunning);
  report.figures = {1000, 0.5, "figures"};
  report.figures.flops_per_second = 3e12;
  EXPECT_EQ(ApplyReport(job, kA, report, At(4)), JobChange::kProgress);
  EXPECT_EQ(Summarize(job, At(4).wall).flops_source, FlopsSource::kUnknown);
  report = Report(1, TrainerState::kRunning);
  report.figures = {500, std::nullopt, "figures"};
  report.figures.flops_per_second = 2e12;
  report.figures.flops_source = FlopsSource::kCounted;
  ApplyReport(job, kB, report, At(4));
  EXPECT_EQ(Summarize(job, At(4).wall).flops_per_second, 5e12);
  EXPECT_EQ(Summarize(job, At(4).wall).flops_source, FlopsSource::kCounted);
  EXPECT_EQ(Summarize(job, At(4).wall).tokens_per_second, 1500);
  EXPECT_EQ(Summarize(job, At(4).wall).mfu, 0.5);
}

}  // namespace
}  // namespace paceline
