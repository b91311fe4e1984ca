#include "worker/trainer/core/lr_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

LrSchedule Make(LrSchedule::Kind kind, int64_t steps, int64_t warmup_steps) {
  LrSchedule schedule;
  schedule.peak = 0.8;
  schedule.steps = steps;
  schedule.warmup_steps = warmup_steps;
  schedule.kind = kind;
  return schedule;
}

TEST(LrScheduleTest, ConstantIsThePeakFromTheFirstStep) {
  const LrSchedule schedule = Make(LrSchedule::Kind::kConstant, 3, 0);
  for (int64_t step = 0; step < 3; ++step) EXPECT_EQ(LearningRate(schedule, step), 0.8);
}

TEST(LrScheduleTest, WarmUpRisesLinearlyAndReachesThePeakAtItsLastStep) {
  for (auto kind :
       {LrSchedule::Kind::kConstant, LrSchedule::Kind::kCosine, LrSchedule::Kind::kStep}) {
    const LrSchedule schedule = Make(kind, 10, 4);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.2);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 1), 0.4);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 0.8);
    EXPECT_DOUBLE_EQ(LearningRate(schedule, 4), 0.8);
  }
}

TEST(LrScheduleTest, CosineFallsFromThePeakToTheFinalRatioAtTheLastStep) {
  LrSchedule schedule = Make(LrSchedule::Kind::kCosine, 7, 2);
  schedule.final_ratio = 0.25;
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 4), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 6), 0.2);
  for (int64_t step = 3; step < 7; ++step) {
    EXPECT_LT(LearningRate(schedule, step), LearningRate(schedule, step - 1));
  }
}

TEST(LrScheduleTest, AfterItsEndTheCosineStays) {
  LrSchedule schedule = Make(LrSchedule::Kind::kCosine, 7, 2);
  schedule.final_ratio = 0.25;
  for (const int64_t step : {6, 7, 8, 1000}) EXPECT_DOUBLE_EQ(LearningRate(schedule, step), 0.2);
  schedule.steps = 3;  // One step of decay.
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 3), 0.2);
}

TEST(LrScheduleTest, CosineOfASingleStepIsThePeak) {
  EXPECT_EQ(LearningRate(Make(LrSchedule::Kind::kCosine, 1, 0), 0), 0.8);
  EXPECT_EQ(LearningRate(Make(LrSchedule::Kind::kCosine, 5, 4), 4), 0.8);
}

TEST(LrScheduleTest, StepMultipliesByGammaCountedFromTheEndOfTheWarmUp) {
  LrSchedule schedule = Make(LrSchedule::Kind::kStep, 9, 2);
  schedule.every = 3;
  schedule.gamma = 0.5;
  const std::vector<double> expected = {0.4, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_DOUBLE_EQ(LearningRate(schedule, static_cast<int64_t>(step)), expected[step]) << step;
  }
}

TEST(LrScheduleTest, RateFollowsTheRanksOnlyOnRequest) {
  using RankScale = LrSchedule::RankScale;
  LrSchedule schedule = Make(LrSchedule::Kind::kConstant, 3, 0);
  schedule.full_ranks = 8;
  for (int ranks = 1; ranks <= 32; ++ranks) {
    schedule.rank_scale = RankScale::kNone;
    EXPECT_EQ(RankFactor(schedule, ranks), 1);
    schedule.rank_scale = RankScale::kLinear;
    EXPECT_DOUBLE_EQ(RankFactor(schedule, ranks), ranks / 8.0);
    schedule.rank_scale = RankScale::kSqrt;
    const double factor = RankFactor(schedule, ranks);
    EXPECT_DOUBLE_EQ(factor * factor, ranks / 8.0);
  }
}

TEST(LrScheduleTest, WithAsManyRanksAsWantedTheRateIsTheSameToTheBit) {
  LrSchedule schedule = Make(LrSchedule::Kind::kCosine, 7, 2);
  schedule.full_ranks = 6;
  for (const auto scale : {LrSchedule::RankScale::kLinear, LrSchedule::RankScale::kSqrt}) {
    schedule.rank_scale = scale;
    EXPECT_EQ(LearningRate(schedule, 3) * RankFactor(schedule, 6), LearningRate(schedule, 3));
  }
}

}  // namespace
}  // namespace paceline
