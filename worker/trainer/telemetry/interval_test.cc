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
  Interval interval({/*flops_per_sample=*/10, /*peak_flops=*/80.0});
  interval.Add(Step(0, 100, 2, 1), true);
  interval.Add(Step(1, 102, 2, 0), true);
  RankFigures figures = interval.End();
  EXPECT_EQ(figures.step, 2);
  EXPECT_EQ(figures.steps, 2);
  EXPECT_DOUBLE_EQ(figures.training_s, 4);
  EXPECT_DOUBLE_EQ(figures.wall_s, 4);
  EXPECT_DOUBLE_EQ(figures.samples_per_s, 4);
  EXPECT_DOUBLE_EQ(figures.tokens_per_s, 400);
  EXPECT_DOUBLE_EQ(figures.data_wait_share, 0.25);
  EXPECT_DOUBLE_EQ(*figures.mfu, 0.5);
  EXPECT_EQ(figures.loss, 2);
  EXPECT_EQ(figures.grad_norm, 3);
  EXPECT_EQ(figures.learning_rate, 0.5);

  // Four seconds of evaluation precede the next step, the only one of its interval.
  interval.Add(Step(2, 108, 2, 0), true);
  figures = interval.End();
  EXPECT_EQ(figures.steps, 1);
  EXPECT_DOUBLE_EQ(figures.training_s, 2);
  EXPECT_DOUBLE_EQ(figures.wall_s, 6);
  EXPECT_DOUBLE_EQ(*figures.mfu, 0.5);
  EXPECT_DOUBLE_EQ(*figures.mfu_wall, 80.0 / 6 / 80);
}

TEST(IntervalTest, NoMfuWithoutPeakOrFormulaOrAboveOne) {
  for (const Interval::Options& options :
       {Interval::Options{10, std::nullopt}, Interval::Options{0, 80.0},
        Interval::Options{1000, 80.0}}) {
    Interval interval(options);
    interval.Add(Step(0, 1, 1, 0), true);
    const RankFigures figures = interval.End();
    EXPECT_FALSE(figures.mfu.has_value());
    EXPECT_FALSE(figures.mfu_wall.has_value());
  }
}

TEST(IntervalTest, SkippedStepsAreCountedFromTheStart) {
  Interval interval({});
  interval.Add(Step(0, 1, 1, 0), false);
  EXPECT_EQ(interval.End().skipped_steps, 1);
  interval.Add(Step(1, 2, 1, 0), true);
  interval.Add(Step(2, 3, 1, 0), false);
  EXPECT_EQ(interval.End().skipped_steps, 2);
}

}  // namespace
}  // namespace paceline
