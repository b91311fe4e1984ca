#include "controller/core/stragglers/job/step_rows.h"

#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

StepTimes Step(int64_t step, double total_s, double communication_s = 0) {
  StepTimes times;
  times.step = step;
  times.total_s = total_s;
  times.communication_s = communication_s;
  return times;
}

TEST(StepRowsTest, StepIsARowOnceAllHaveTold) {
  StepRows rows(2);
  EXPECT_FALSE(rows.Add(0, Step(7, 0.2, 0.05)).has_value());
  EXPECT_FALSE(rows.Add(0, Step(8, 0.4)).has_value());
  const auto row = rows.Add(1, Step(7, 0.4, 0.01));
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->step, 7);
  EXPECT_DOUBLE_EQ(row->total_s, 0.3);
  EXPECT_DOUBLE_EQ(row->communication_s, 0.01);
  EXPECT_FALSE(row->masked);
  EXPECT_TRUE(rows.Add(1, Step(8, 0.4)).has_value());
}

TEST(StepRowsTest, RepeatedAndLateReportsChangeNothing) {
  StepRows rows(2);
  EXPECT_FALSE(rows.Add(0, Step(7, 0.2)).has_value());
  EXPECT_FALSE(rows.Add(0, Step(7, 0.9)).has_value());
  EXPECT_DOUBLE_EQ(rows.Add(1, Step(7, 0.2))->total_s, 0.2);
  EXPECT_FALSE(rows.Add(1, Step(7, 0.2)).has_value());
  EXPECT_FALSE(rows.Add(0, Step(7 + kOpenSteps, 0.2)).has_value()) << "takes the place of 7";
  EXPECT_FALSE(rows.Add(0, Step(7, 0.2)).has_value());
  EXPECT_FALSE(rows.Add(1, Step(7, 0.2)).has_value());
  EXPECT_TRUE(rows.Add(1, Step(7 + kOpenSteps, 0.2)).has_value());
}

TEST(StepRowsTest, AveragesAreToldByTheRanksThatTheyWereOver) {
  StepRows rows(3);
  StepTimes times = Step(3, 1);
  times.averaging_ranks = 2;
  times.averaging_s = 0.3;
  rows.Add(0, times);
  times.averaging_s = 0.1;
  times.masked = true;
  rows.Add(1, times);
  times.averaging_ranks = 0;
  times.averaging_s = 0;
  times.masked = false;
  const auto row = rows.Add(2, times);
  ASSERT_TRUE(row.has_value());
  EXPECT_TRUE(row->masked);
  EXPECT_EQ(row->averaging_s.size(), 1U);
  EXPECT_DOUBLE_EQ(row->averaging_s.at(2), 0.1);
}

TEST(StepRowsTest, ExchangesAreToldByRank) {
  StepRows rows(2);
  StepTimes times = Step(3, 1, 0.25);
  times.averaging_ranks = 2;
  times.averaging_s = 0.5;
  rows.Add(1, times);
  const auto row = rows.Add(0, Step(3, 1, 0.125));
  ASSERT_TRUE(row.has_value());
  ASSERT_EQ(row->exchanges.size(), 2U);
  EXPECT_EQ(row->exchanges[0].gradients_s, 0.125F);
  EXPECT_EQ(row->exchanges[0].averaging_ranks, 0);
  EXPECT_EQ(row->exchanges[1].gradients_s, 0.25F);
  EXPECT_EQ(row->exchanges[1].averaging_s, 0.5F);
  EXPECT_EQ(row->exchanges[1].averaging_ranks, 2);
}

TEST(StepTimesTest, NonsenseIsNotPlausible) {
  EXPECT_TRUE(IsPlausible(Step(0, 1, 0.5)));
  EXPECT_FALSE(IsPlausible(Step(-1, 1)));
  EXPECT_FALSE(IsPlausible(Step(0, -1)));
  EXPECT_FALSE(IsPlausible(Step(0, 1, 2))) << "waits longer than the step";
  EXPECT_FALSE(IsPlausible(Step(0, 1e9)));
  EXPECT_FALSE(IsPlausible(Step(0, std::numeric_limits<double>::quiet_NaN())));
  StepTimes times = Step(0, 1);
  times.workload = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(IsPlausible(times));
}

}  // namespace
}  // namespace paceline
