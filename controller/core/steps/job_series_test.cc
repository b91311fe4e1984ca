#include "controller/core/steps/job_series.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

StepTimes Step(double own, double wait) {
  StepTimes times;
  times.forward_s = own;
  times.communication_s = wait;
  times.total_s = own + wait;
  return times;
}

TEST(JobSeriesTest, PointHoldsWhatWasToldInItsPeriod) {
  Job job = RunningJob();
  job.ranks[0].report.progress = {7, 0, {}, 0.5, {}, 100};
  job.ranks[1].report.progress = {8, 0, {}, 1.5, {}, 200};
  JobSeries series;
  EXPECT_FALSE(series.Follow(job, At(10)));
  EXPECT_TRUE(series.points().empty());
  series.Add(Step(1, 0.5));
  series.Add(Step(2, 0.5));
  EXPECT_TRUE(series.Follow(job, At(11)));
  EXPECT_FALSE(series.Follow(job, At(11.5)));
  EXPECT_TRUE(series.Follow(job, At(12)));
  ASSERT_EQ(series.points().size(), 2U);
  const SeriesPoint& point = series.points()[0];
  EXPECT_EQ(point.end, At(11).wall);
  EXPECT_EQ(point.step, 7);
  EXPECT_EQ(point.records, 2);
  EXPECT_DOUBLE_EQ(point.step_s, 4);
  EXPECT_DOUBLE_EQ(point.own_s, 3);
  EXPECT_FLOAT_EQ(point.loss, 1);
  EXPECT_FLOAT_EQ(point.samples_per_second, 300);
  EXPECT_FALSE(point.mfu.has_value());
  EXPECT_EQ(series.points()[1].records, 0);
}

TEST(JobSeriesTest, BecomesCoarserAndThenForgetsTheOldest) {
  const Job job = RunningJob();
  JobSeries series;
  int records = 0;
  size_t most = 0;
  int second = 0;
  for (; series.period() < kLastSeriesPeriod; ++second) {
    series.Follow(job, At(second));
    series.Add(Step(1, 0));
    ++records;
    most = std::max(most, series.points().size());
  }
  EXPECT_LE(most, kSeriesPoints);
  int64_t reported = 0;
  absl::Time before = absl::InfinitePast();
  for (const SeriesPoint& point : series.points()) {
    reported += point.records;
    EXPECT_GT(point.end, before);
    before = point.end;
  }
  EXPECT_EQ(reported, records - 1) << "the last one is in the open period";
  for (const int end = second + 10000; second < end; ++second) series.Follow(job, At(second));
  EXPECT_EQ(series.period(), kLastSeriesPeriod);
  EXPECT_EQ(series.points().size(), kSeriesPoints);
  EXPECT_GT(series.points().front().end, At(10000 - 4.1 * kSeriesPoints).wall);
}

}  // namespace
}  // namespace paceline
