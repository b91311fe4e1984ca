#include <gtest/gtest.h>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

double IntervalSeconds(absl::Duration blocked, absl::Duration mtbf, absl::Duration durable) {
  return absl::ToDoubleSeconds(AutoInterval(blocked, mtbf, durable));
}

TEST(SaveTimingTest, IntervalIsYoungs) {
  // sqrt(2 * 0.5 s * 10800 s), and sqrt(2 * 0.05 s * 24 h).
  EXPECT_NEAR(IntervalSeconds(absl::Seconds(0.5), absl::Hours(3), absl::ZeroDuration()), 103.923,
              1e-3);
  EXPECT_NEAR(IntervalSeconds(absl::Milliseconds(50), absl::Hours(24), absl::Seconds(1)), 92.952,
              1e-3);
}

TEST(SaveTimingTest, IntervalHasBounds) {
  EXPECT_EQ(IntervalSeconds(absl::ZeroDuration(), absl::Hours(3), absl::ZeroDuration()), 10);
  EXPECT_EQ(IntervalSeconds(absl::Seconds(60), absl::Hours(1000), absl::ZeroDuration()), 3600);
  EXPECT_EQ(IntervalSeconds(absl::Milliseconds(1), absl::Hours(1), absl::Seconds(30)), 60);
  EXPECT_EQ(IntervalSeconds(absl::Seconds(60), absl::Hours(1000), absl::Hours(1)), 7200);
}

TEST(SaveTimingTest, FailuresAreAddedToThePrior) {
  const auto hours = [](int64_t failures, double node_hours, int nodes) {
    return absl::ToDoubleHours(MeanTimeBetweenFailures(failures, absl::Hours(node_hours), nodes));
  };
  EXPECT_NEAR(hours(0, 0, 1), 1000, 1e-6);
  EXPECT_NEAR(hours(0, 0, 10), 100, 1e-6);
  EXPECT_NEAR(hours(4, 200, 8), 30, 1e-6);
}

TEST(SaveTimingTest, SaveIsOrderedWhenItIsDueAndCountsFromTheLatest) {
  JobRequest request = PlayedRequest();
  request.checkpoints.every = absl::Seconds(60);
  Job job = RunningJob(request);  // Since second 2.
  EXPECT_EQ(NextDeadline(job), At(62).steady);
  EXPECT_EQ(TickJob(job, At(61)), JobChange::kNone);
  EXPECT_EQ(TickJob(job, At(62)), JobChange::kState);
  ASSERT_TRUE(IsOrderPending(job));
  EXPECT_EQ(job.checkpoints.order->reason, "every 1m");
  EXPECT_EQ(NextDeadline(job), absl::InfiniteFuture()) << "one at a time";
  SaveAll(job, 20, At(70), /*order=*/1);
  EXPECT_EQ(NextDeadline(job), At(130).steady);
  EXPECT_EQ(job.checkpoints.next_save_wall, At(130).wall);
  OrderSave(job, false, "asked", At(100));
  SaveAll(job, 40, At(101), /*order=*/2);
  EXPECT_EQ(NextDeadline(job), At(161).steady);
}

TEST(SaveTimingTest, OrderThatFailedIsFollowedByTheNextAfterTheInterval) {
  JobRequest request = PlayedRequest();
  request.checkpoints.every = absl::Seconds(60);
  Job job = RunningJob(request);
  TickJob(job, At(62));
  TellSaves(job, 0, {Reported(20, SaveState::kFailed, 1)}, At(63));
  EXPECT_EQ(NextDeadline(job), At(122).steady);
}

TEST(SaveTimingTest, AutomaticSavesBeginSoonAndAreThenSpacedByTheirCost) {
  JobRequest request = PlayedRequest();
  request.checkpoints.auto_interval = true;
  Job job = RunningJob(request);
  EXPECT_EQ(NextDeadline(job), At(62).steady);
  TickJob(job, At(62));
  for (int rank = 0; rank < 2; ++rank) {
    TrainerReport report = PlayedReport(job, rank, TrainerState::kRunning);
    report.saves = {Reported(20, SaveState::kDurable, 1)};
    report.blocked = rank == 0 ? absl::Milliseconds(1) : absl::Milliseconds(2);
    Tell(job, report, At(63));
  }
  TrainerReport report = PlayedReport(job, 0, TrainerState::kRunning);
  report.saves = {Reported(20, SaveState::kCommitted, 1)};
  report.blocked = absl::Milliseconds(1);
  Tell(job, report, At(64));
  // sqrt(2 * 2 ms * (1000 h + 2 * 63 s) / 2 nodes); placed at 1 s.
  EXPECT_NEAR(absl::ToDoubleSeconds(job.checkpoints.interval), 84.854, 1e-3);
  EXPECT_EQ(NextDeadline(job), At(64).steady + job.checkpoints.interval);
}

TEST(SaveTimingTest, NothingIsDueWithoutATimeOrBeforeAllRanksTrain) {
  EXPECT_EQ(NextDeadline(RunningJob()), absl::InfiniteFuture());
  JobRequest request = PlayedRequest();
  request.checkpoints.every = absl::Seconds(60);
  Job job = NewJob(request, 1, At(0));
  PlaceOnBoth(job, At(1));
  EXPECT_EQ(NextDeadline(job), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline
