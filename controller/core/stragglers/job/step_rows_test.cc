#include "controller/core/stragglers/job/step_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace paceline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kOpenSteps = 256;

StepTimes Step(int64_t step, double total_s, double communication_s = 0) {
  StepTimes times;
  times.step = step;
  times.total_s = total_s;
  times.communication_s = communication_s;
  return times;
}

// The rows that a report completes.
std::vector<StepRow> Reported(StepRows& rows, int rank, const StepTimes& times) {
  std::vector<StepRow> complete;
  rows.Add(rank, times, complete);
  return complete;
}

TEST(StepRowsTest, StepIsARowOnceAllHaveTold) {
  StepRows rows(2, kOpenSteps);
  EXPECT_THAT(Reported(rows, 0, Step(7, 0.2, 0.05)), IsEmpty());
  EXPECT_THAT(Reported(rows, 0, Step(8, 0.4)), IsEmpty());
  const auto row = Reported(rows, 1, Step(7, 0.4, 0.01));
  ASSERT_THAT(row, SizeIs(1));
  EXPECT_EQ(row[0].step, 7);
  EXPECT_DOUBLE_EQ(row[0].total_s, 0.3);
  EXPECT_DOUBLE_EQ(row[0].communication_s, 0.01);
  EXPECT_FALSE(row[0].masked);
  EXPECT_THAT(Reported(rows, 1, Step(8, 0.4)), SizeIs(1));
}

TEST(StepRowsTest, RepeatedAndLateReportsChangeNothing) {
  StepRows rows(2, kOpenSteps);
  EXPECT_THAT(Reported(rows, 0, Step(7, 0.2)), IsEmpty());
  EXPECT_THAT(Reported(rows, 0, Step(7, 0.9)), IsEmpty());
  EXPECT_DOUBLE_EQ(Reported(rows, 1, Step(7, 0.2)).at(0).total_s, 0.2);
  EXPECT_THAT(Reported(rows, 1, Step(7, 0.2)), IsEmpty());
  EXPECT_THAT(Reported(rows, 0, Step(7 + kOpenSteps, 0.2)), IsEmpty());
  EXPECT_THAT(Reported(rows, 0, Step(7, 0.2)), IsEmpty());
  EXPECT_THAT(Reported(rows, 1, Step(7, 0.2)), IsEmpty());
  EXPECT_THAT(Reported(rows, 1, Step(7 + kOpenSteps, 0.2)), SizeIs(1));
}

TEST(StepRowsTest, MostAreEnoughWhereRanksSkipSteps) {
  StepRows rows(4, kOpenSteps, /*ranks_skip=*/true);
  std::vector<StepRow> complete;
  for (int64_t step = 0; step < 100; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == 3 && step % 10 != 0) continue;  // This rank is slow.
      rows.Add(rank, Step(step, rank == 3 ? 1 : 0.1), complete);
    }
  }
  ASSERT_GT(complete.size(), 60U);
  for (const StepRow& row : complete) {
    EXPECT_FLOAT_EQ(row.own_s[3], row.step % 10 == 0 ? 1 : 0.1) << row.step;
  }
}

TEST(StepRowsTest, AFewLostReportsAreStoodFor) {
  StepRows rows(20, kOpenSteps);
  std::vector<StepRow> complete;
  for (int64_t step = 0; step < 100; ++step) {
    for (int rank = 0; rank < 20; ++rank) {
      const bool lost = rank == 5 || (rank == 6 && step == 50);
      if (!lost) rows.Add(rank, Step(step, rank == 7 ? 3 : 1), complete);
    }
  }
  // Each waits for its last rank until the next one is as far. Step 50 is no row.
  ASSERT_THAT(complete, SizeIs(100 - 2));
  EXPECT_EQ(complete[49].step, 49);
  EXPECT_EQ(complete[50].step, 51);
  EXPECT_NEAR(complete[0].total_s, 21.0 / 19, 1e-9) << "of those that have told";
  EXPECT_EQ(complete[0].own_s[5], 1) << "the median";
  EXPECT_EQ(complete[0].own_s[7], 3);
  EXPECT_THAT(Reported(rows, 5, Step(0, 1)), IsEmpty()) << "too late";
}

TEST(StepRowsTest, AllHaveToReportWhereRanksAreFew) {
  StepRows rows(8, kOpenSteps);
  std::vector<StepRow> complete;
  for (int rank = 0; rank < 8; ++rank) {
    for (int64_t step = 0; step < 100; ++step) rows.Add(rank, Step(step, 1), complete);
    EXPECT_THAT(complete, SizeIs(rank < 7 ? 0 : 100)) << "also in batches of many steps";
  }
}

TEST(StepRowsTest, LostReportsAreStoodForWhateverStepsAreNumbered) {
  StepRows rows(20, kOpenSteps);
  std::vector<StepRow> complete;
  for (int64_t step = 0; step < 1000; step += 10) {
    for (int rank = 0; rank < 19; ++rank) {
      rows.Add(rank, Step(step, rank < 9 ? 1 : rank == 9 ? 2 : 3), complete);
    }
  }
  ASSERT_THAT(complete, SizeIs(99));
  EXPECT_EQ(complete[98].step, 980);
  EXPECT_EQ(complete[98].own_s[19], 2) << "the median";
}

TEST(StepRowsTest, StepsOfAFarFutureKeepNoneAway) {
  StepRows rows(2, kOpenSteps);
  for (int64_t step = 0; step < kOpenSteps; ++step) {
    EXPECT_THAT(Reported(rows, 0, Step(5000 + step, 0.2)), IsEmpty());
  }
  int complete = 0;
  for (int64_t step = 1000; step < 1100; ++step) {
    Reported(rows, 0, Step(step, 0.2));
    complete += static_cast<int>(Reported(rows, 1, Step(step, 0.2)).size());
  }
  EXPECT_EQ(complete, 100);
}

TEST(StepRowsTest, RankMayTellOfManyStepsBeforeAnother) {
  StepRows rows(2, kOpenSteps);
  for (int64_t step = 0; step < 1000; ++step) Reported(rows, 0, Step(step, 0.001));
  int complete = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    complete += static_cast<int>(Reported(rows, 1, Step(step, 0.001)).size());
  }
  EXPECT_EQ(complete, kOpenSteps) << "the oldest ones";
}

TEST(StepRowsTest, AveragesAreToldByTheRanksThatTheyWereOver) {
  StepRows rows(3, kOpenSteps);
  StepTimes times = Step(3, 1);
  times.averaging_ranks = 2;
  times.averaging_s = 0.3;
  times.sent_bytes = 7;
  Reported(rows, 0, times);
  times.averaging_s = 0.1;
  times.sent_bytes = 5;
  times.masked = true;
  Reported(rows, 1, times);
  times.averaging_ranks = 0;
  times.averaging_s = 0;
  times.masked = false;
  const auto row = Reported(rows, 2, times);
  ASSERT_THAT(row, SizeIs(1));
  EXPECT_TRUE(row[0].masked);
  EXPECT_EQ(row[0].averaging_s.size(), 1U);
  EXPECT_DOUBLE_EQ(row[0].averaging_s.at(2), 0.1);
  EXPECT_EQ(row[0].sent_bytes, 7);
}

TEST(StepRowsTest, ExchangesAreToldByRank) {
  StepRows rows(2, kOpenSteps);
  StepTimes times = Step(3, 1, 0.25);
  times.averaging_ranks = 2;
  times.averaging_s = 0.5;
  Reported(rows, 1, times);
  const auto row = Reported(rows, 0, Step(3, 1, 0.125));
  ASSERT_THAT(row, SizeIs(1));
  const std::vector<RankExchange>& exchanges = row[0].exchanges;
  ASSERT_EQ(exchanges.size(), 2U);
  EXPECT_EQ(exchanges[0].gradients_s, 0.125F);
  EXPECT_EQ(exchanges[0].averaging_ranks, 0);
  EXPECT_EQ(exchanges[1].gradients_s, 0.25F);
  EXPECT_EQ(exchanges[1].averaging_s, 0.5F);
  EXPECT_EQ(exchanges[1].averaging_ranks, 2);
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
