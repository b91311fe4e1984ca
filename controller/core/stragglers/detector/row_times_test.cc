#include "controller/core/stragglers/detector/row_times.h"

#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/detector/imbalance.h"
#include "controller/core/stragglers/detector/work_exponent.h"

namespace paceline {
namespace {

StepCell Cell(float forward_s, float backward_s, float wall_s = 0, float workload = 0) {
  StepCell cell;
  cell.forward_s = forward_s;
  cell.backward_s = backward_s;
  cell.wall_s = wall_s;
  cell.workload = workload;
  cell.present = true;
  return cell;
}

TEST(RowTimesTest, OwnTimeIsThatOfTheUsualWorkloadWhenAllTellIt) {
  RowTimes times(3);
  times.Set({Cell(1, 2, 0, 10), StepCell(), Cell(2, 4, 0, 20)}, {false, false, false});
  EXPECT_TRUE(times.normalised());
  EXPECT_NEAR(times.own()[0], std::log(0.3 * std::sqrt(200)), 1e-6);
  EXPECT_NEAR(times.own()[2], times.own()[0], 1e-6);
  EXPECT_NEAR(times.backward()[2], std::log(0.2 * std::sqrt(200)), 1e-6);
  EXPECT_TRUE(std::isnan(times.own()[1]));
  EXPECT_TRUE(std::isnan(times.work()[1]));
  times.Set({Cell(1, 2, 0, 10), StepCell(), Cell(2, 4, 0, 40)}, {false, false, false}, 0.5);
  EXPECT_NEAR(times.own()[2], times.own()[0], 1e-6) << "as the root of the work";
  times.Set({Cell(1, 2, 0, 10), StepCell(), Cell(2, 4)}, {false, false, false});
  EXPECT_FALSE(times.normalised());
  EXPECT_NEAR(times.own()[2], std::log(6), 1e-6);
}

TEST(RowTimesTest, SlowRankCostsWhatItExceedsTheSlowestHealthyOneBy) {
  RowTimes times(4);
  const std::vector<StepCell> cells = {Cell(1, 1), Cell(1, 1.25), Cell(2, 2), Cell(1, 2)};
  times.Set(cells, {false, false, true, true});
  EXPECT_EQ(times.job_s(), 4);
  EXPECT_EQ(times.LostTo(2), 4 - 2.25);
  EXPECT_EQ(times.LostTo(3), 3 - 2.25);
  EXPECT_EQ(times.LostTo(1), 0.25) << "if it were";
  EXPECT_EQ(times.LostTo(0), 0);
  times.Set(cells, {true, true, true, true});
  EXPECT_EQ(times.LostTo(2), 0) << "nobody to compare with";
}

TEST(RowTimesTest, MeasuredWallTimeIsTheJobs) {
  RowTimes times(2);
  times.Set({Cell(1, 1, 5), Cell(1, 2, 5)}, {false, false});
  EXPECT_EQ(times.job_s(), 5);
  EXPECT_FALSE(times.waited());
}

TEST(RowTimesTest, WhatIsNotKnownIsNotCompared) {
  RowTimes times(3);
  StepCell waits_unknown = Cell(1, 3);
  waits_unknown.data_wait_s = NAN;
  times.Set({Cell(1, 1), Cell(1, NAN), waits_unknown}, {false, false, false});
  EXPECT_EQ(times.own_s()[0], 2);
  EXPECT_TRUE(std::isnan(times.own()[1])) << "most tell both passes";
  EXPECT_TRUE(std::isnan(times.own_s()[1]));
  EXPECT_EQ(times.forward()[1], 0);
  EXPECT_EQ(times.data_wait_s()[1], 0);
  EXPECT_TRUE(std::isnan(times.data_wait_s()[2]));
  EXPECT_EQ(times.LostTo(2), 4 - 2);
  EXPECT_EQ(times.job_s(), 4);
  const int both = times.quantity();
  times.Set({Cell(1, NAN), Cell(2, NAN), Cell(4, 1)}, {false, false, false});
  EXPECT_EQ(times.own_s(), (std::vector<double>{1, 2, 4})) << "most tell forward alone";
  EXPECT_NE(times.quantity(), both);
  times.Set({Cell(NAN, 1), Cell(NAN, 2), StepCell()}, {false, false, false});
  EXPECT_EQ(times.own_s()[1], 2);
}

TEST(RowTimesTest, WaitsAreComparedFromTheFirstOnThatAnyRankHadToWait) {
  RowTimes times(2);
  StepCell waits = Cell(1, 1);
  times.Set({waits, waits}, {false, false});
  EXPECT_FALSE(times.waited());
  waits.data_wait_s = 0.5F;
  times.Set({waits, Cell(1, 1)}, {false, false});
  EXPECT_TRUE(times.waited());
  times.Set({Cell(1, 1), Cell(1, 1)}, {false, false});
  EXPECT_TRUE(times.waited()) << "who waited waits no longer";
}

TEST(RowTimesTest, TickIsTheLeastChange) {
  RowTimes times(2);
  for (int row = 0; row < 30; ++row) {
    times.Set({Cell(1, 1), Cell(1.5, 2)}, {false, false});
  }
  EXPECT_EQ(times.tick_s(), 0) << "nothing has changed";
  for (int row = 0; row < 10; ++row) {
    const float change = row % 2 == 0 ? 0.25F : 0.5F;
    times.Set({Cell(1 + change, 1), Cell(1, 2)}, {false, false});
  }
  EXPECT_EQ(times.tick_s(), 0) << "eleven times are too few";
  for (int row = 0; row < 10; ++row) {
    times.Set({Cell(row % 2 == 0 ? 1 : 1.25F, 1), StepCell()}, {false, false});
  }
  EXPECT_EQ(times.tick_s(), 0.25);
  times.Set({Cell(1.1F, 1), StepCell()}, {false, false});
  EXPECT_EQ(times.tick_s(), 0) << "1.1 is no multiple";
}

TEST(RowTimesTest, RoundedTimesHaveATick) {
  RowTimes times(2);
  for (int row = 0; row < 50; ++row) {
    const float jitter = 0.01F * static_cast<float>(row * row % 7);
    times.Set({Cell(0.7F + jitter, 1), Cell(0.76F - jitter, 1)}, {false, false});
  }
  EXPECT_NEAR(times.tick_s(), 0.01, 1e-5);
}

TEST(WorkExponentTest, IsThatOfTheTimes) {
  for (const double truth : {0.0, 0.5, 0.95, 1.0}) {
    WorkExponent exponent;
    for (int row = 0; row < 100; ++row) {
      exponent.BeginRow();
      for (int rank = 0; rank < 8; ++rank) {
        const double work = 0.2 * std::sin(row * 8 + rank);
        exponent.Add(work, (truth - exponent.value()) * work + (rank == 3 ? 0.7 : 0));
        exponent.Add(work, NAN);
      }
    }
    EXPECT_NEAR(exponent.value(), truth, 0.05) << "one of eight is slow";
  }
  WorkExponent same;
  for (int row = 0; row < 100; ++row) {
    same.BeginRow();
    for (int rank = 0; rank < 8; ++rank) same.Add(0, rank == 3 ? 0.3 : 0);
  }
  EXPECT_EQ(same.value(), 1);
}

TEST(ImbalanceTest, HoldsWhenForwardAndBackwardVaryTogether) {
  Imbalance together;
  Imbalance apart;
  Imbalance small;
  for (int row = 0; row < 60; ++row) {
    EXPECT_EQ(together.holds(), row >= Imbalance::kRows) << row;
    for (Imbalance* each : {&together, &apart, &small}) each->BeginRow();
    for (int rank = 0; rank < 8; ++rank) {
      const double work = 0.1 * std::sin(row * 8 + rank);
      together.Add(work, work + 0.01 * std::cos(rank));
      apart.Add(work, 0.1 * std::cos(row * 8 + rank));
      small.Add(0.1 * work, 0.1 * work);
      together.Add(NAN, 1);
    }
  }
  EXPECT_FALSE(apart.holds());
  EXPECT_FALSE(small.holds()) << "mere noise";
}

}  // namespace
}  // namespace paceline
