#include "worker/trainer/telemetry/interval.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

StepRecord Step(uint64_t step, uint64_t start_s, uint64_t total_s, uint64_t wait_s) {
  StepRecord record;
  record.step = step;
  record.start_ns = start_s * kSecond;
  record.total_ns = total_s * kSecond;
  record.phase_ns[static_cast<size_t>(Phase::kDataWait)] = wait_s * kSecond;
  record.samples = 8;
  record.tokens = 800;
  record.loss = 2;
  record.grad_norm = 3;
  record.learning_rate = 0.5f;
  return record;
}

TEST(IntervalTest, RatesAreOverTheStepsAndWallTimeIsOverAll) {
  const Interval::Cost cost{/*flops_per_sample=*/10, FlopsSource::kCounted, /*peak_flops=*/80.0};
  Interval interval;
  interval.Add(Step(0, 100, 2, 1), true);
  interval.Add(Step(1, 102, 2, 0), true);
  RankFigures figures = interval.End(cost);
  EXPECT_EQ(figures.step, 2);
  EXPECT_EQ(figures.steps, 2);
  EXPECT_DOUBLE_EQ(figures.training_s, 4);
  EXPECT_DOUBLE_EQ(figures.wall_s, 4);
  EXPECT_DOUBLE_EQ(figures.samples_per_s, 4);
  EXPECT_DOUBLE_EQ(figures.tokens_per_s, 400);
  EXPECT_DOUBLE_EQ(figures.data_wait_share, 0.25);
  EXPECT_DOUBLE_EQ(*figures.mfu, 0.5);
  EXPECT_EQ(figures.flops_per_sample, 10);
  EXPECT_DOUBLE_EQ(figures.flops_per_s, 40);
  EXPECT_EQ(figures.flops_source, FlopsSource::kCounted);
  EXPECT_EQ(figures.peak_flops, 80);
  EXPECT_EQ(figures.loss, 2);
  EXPECT_EQ(figures.grad_norm, 3);
  EXPECT_EQ(figures.learning_rate, 0.5);

  // Four seconds of evaluation precede the next step, the only one of its interval.
  interval.Add(Step(2, 108, 2, 0), true);
  figures = interval.End(cost);
  EXPECT_EQ(figures.steps, 1);
  EXPECT_DOUBLE_EQ(figures.training_s, 2);
  EXPECT_DOUBLE_EQ(figures.wall_s, 6);
  EXPECT_DOUBLE_EQ(*figures.mfu, 0.5);
  EXPECT_DOUBLE_EQ(*figures.mfu_wall, 80.0 / 6 / 80);
}

TEST(IntervalTest, NoMfuWithoutPeakOrFlopsOrAboveOne) {
  for (const Interval::Cost& cost : {Interval::Cost{10, FlopsSource::kFormula, std::nullopt},
                                     Interval::Cost{0, FlopsSource::kUnknown, 80.0},
                                     Interval::Cost{1000, FlopsSource::kGiven, 80.0}}) {
    Interval interval;
    interval.Add(Step(0, 1, 1, 0), true);
    const RankFigures figures = interval.End(cost);
    EXPECT_FALSE(figures.mfu.has_value());
    EXPECT_FALSE(figures.mfu_wall.has_value());
    EXPECT_DOUBLE_EQ(figures.flops_per_s, cost.flops_per_sample * 8) << "is known anyway";
    EXPECT_EQ(figures.flops_source, cost.source);
  }
}

// What is counted in the first steps is known when the interval ends.
TEST(IntervalTest, TheCostIsThatAtTheEnd) {
  Interval interval;
  interval.Add(Step(0, 1, 1, 0), true);
  EXPECT_EQ(interval.End({}).flops_per_s, 0);
  interval.Add(Step(1, 2, 1, 0), true);
  EXPECT_DOUBLE_EQ(interval.End({2, FlopsSource::kCounted, {}}).flops_per_s, 16);
}

TEST(IntervalTest, ARankWhoseSamplesAnotherOneCountsDoesItsPart) {
  StepRecord record = Step(0, 1, 2, 0);
  record.samples = 0;
  record.workload = 8;
  Interval interval(/*costs_workload=*/true);
  interval.Add(record, true);
  const RankFigures figures = interval.End({10, FlopsSource::kCounted, 80.0});
  EXPECT_EQ(figures.samples_per_s, 0);
  EXPECT_DOUBLE_EQ(figures.flops_per_s, 40);
  EXPECT_DOUBLE_EQ(*figures.mfu, 0.5);
}

TEST(IntervalTest, SkippedStepsAreCountedFromTheStart) {
  Interval interval;
  interval.Add(Step(0, 1, 1, 0), false);
  EXPECT_EQ(interval.End({}).skipped_steps, 1);
  interval.Add(Step(1, 2, 1, 0), true);
  interval.Add(Step(2, 3, 1, 0), false);
  EXPECT_EQ(interval.End({}).skipped_steps, 2);
}

}  // namespace
}  // namespace paceline
