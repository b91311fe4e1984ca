#include "controller/core/steps/job_steps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

// A step of `own` seconds, and `wait` more of waiting for others.
StepTimes Step(int64_t step, double own, double wait = 0) {
  StepTimes times;
  times.step = step;
  times.forward_s = own;
  times.communication_s = wait;
  times.total_s = own + wait;
  return times;
}

// Codes are exact to 0.1 %.
void ExpectSeconds(double found, double wanted) { EXPECT_NEAR(found, wanted, 0.001 * wanted); }

TEST(StepCodeTest, KeepsTimesToAShareOfAPercentAndTheirOrder) {
  StepCode before = 0;
  for (int i = 0; i < 76; ++i) {
    const double seconds = 2e-6 * std::pow(1.37, i);
    const StepCode code = EncodeSeconds(seconds);
    EXPECT_GT(code, before);
    ExpectSeconds(DecodeSeconds(code), seconds);
    before = code;
  }
  EXPECT_EQ(DecodeSeconds(0), 0);
  EXPECT_GT(EncodeSeconds(0), 0) << "a step of no length was told, too";
  EXPECT_EQ(EncodeSeconds(1e9), kStepCodes);
}

TEST(JobStepsTest, ShowsEachRanksStepsInOrder) {
  JobSteps steps(2, 1);
  steps.Begin(Generation(1));
  for (int64_t step = 5; step < 8; ++step) {
    steps.Add(0, Step(step, 0.1 * static_cast<double>(step), 0.5));
    steps.Add(1, Step(step, 2));
  }
  const StepTable table = steps.View(0, 100);
  EXPECT_EQ(table.first_step, 5);
  EXPECT_EQ(table.steps, 3);
  EXPECT_EQ(table.ranks_per_row, 1);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].first_rank, 1);
  for (size_t c = 0; c < 3; ++c) {
    ExpectSeconds(table.rows[0].own_s[c], 0.1 * static_cast<double>(5 + c));
    ExpectSeconds(table.rows[0].step_s[c], 0.1 * static_cast<double>(5 + c) + 0.5);
    ExpectSeconds(table.rows[1].own_s[c], 2);
  }
  ExpectSeconds(table.median_own_s, 2);
}

TEST(JobStepsTest, StepsThatNobodyToldOfAreEmpty) {
  JobSteps steps(2, 1);
  steps.Begin(Generation(1));
  steps.Add(0, Step(1, 1));
  steps.Add(0, Step(4, 1));
  const StepTable table = steps.View(0, 100);
  EXPECT_EQ(table.first_step, 1);
  ASSERT_EQ(table.steps, 4);
  EXPECT_EQ(table.rows[0].own_s[1], 0);
  EXPECT_EQ(table.rows[0].own_s[2], 0);
  EXPECT_GT(table.rows[0].own_s[3], 0);
  EXPECT_EQ(table.rows[1].own_s[3], 0);
}

TEST(JobStepsTest, KeepsTheNewestStepsOnly) {
  JobSteps steps(1, 1);
  steps.Begin(Generation(1));
  for (int64_t step = 0; step < 3 * kStepsKept; ++step) steps.Add(0, Step(step, 1 + step));
  StepTable table = steps.View(0, 10);
  EXPECT_EQ(table.first_step, 2 * kStepsKept);
  EXPECT_EQ(table.steps, kStepsKept);
  ExpectSeconds(table.rows[0].own_s[0], 1 + 2 * kStepsKept);
  table = steps.View(5, 10);
  EXPECT_EQ(table.steps, 5);
  ExpectSeconds(table.rows[0].own_s[4], 3 * kStepsKept);
  // A late record does not take a newer one's place.
  steps.Add(0, Step(kStepsKept, 77));
  ExpectSeconds(steps.View(0, 10).rows[0].own_s[0], 1 + 2 * kStepsKept);
}

TEST(JobStepsTest, RowOfSeveralRanksShowsTheSlowest) {
  JobSteps steps(5, 2);
  steps.Begin(Generation(1));
  EXPECT_EQ(steps.rows(), 3);
  const double own[] = {1, 3, 2, 1, 7};
  // All wait for the slowest, so it is not the longest step that counts.
  for (int rank = 0; rank < 5; ++rank) steps.Add(rank, Step(0, own[rank], 8 - own[rank] + rank));
  const StepTable table = steps.View(0, 100);
  EXPECT_EQ(table.ranks_per_row, 2);
  ASSERT_EQ(table.rows.size(), 3U);
  ExpectSeconds(table.rows[0].own_s[0], 3);
  ExpectSeconds(table.rows[0].step_s[0], 9);
  ExpectSeconds(table.rows[1].own_s[0], 2);
  ExpectSeconds(table.rows[2].own_s[0], 7);
}

TEST(JobStepsTest, ViewJoinsRowsUntilTheyAreFewEnough) {
  JobSteps steps(10, 2);
  steps.Begin(Generation(1));
  for (int rank = 0; rank < 10; ++rank) steps.Add(rank, Step(0, 1 + rank));
  const StepTable table = steps.View(0, 2);
  EXPECT_EQ(table.ranks_per_row, 6);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1].first_rank, 6);
  ExpectSeconds(table.rows[0].own_s[0], 6);
  ExpectSeconds(table.rows[1].own_s[0], 10);
}

TEST(JobStepsTest, NextGenerationReplacesWhatItDoesAgain) {
  JobSteps steps(2, 1);
  steps.Begin(Generation(1));
  for (int64_t step = 0; step < 50; ++step) {
    for (int rank = 0; rank < 2; ++rank) steps.Add(rank, Step(step, 1));
  }
  // The job goes on from step 20; rank 1 has not reported yet.
  steps.Begin(Generation(2));
  EXPECT_EQ(steps.means(0).step_s, 0);
  steps.Add(0, Step(20, 2));
  steps.Add(0, Step(21, 2));
  const StepTable table = steps.View(0, 100);
  EXPECT_EQ(table.first_step, 0);
  ASSERT_EQ(table.steps, 22);
  ExpectSeconds(table.rows[1].own_s[19], 1);
  EXPECT_EQ(table.rows[1].own_s[20], 0);
  ExpectSeconds(table.rows[0].own_s[21], 2);
}

TEST(JobStepsTest, MeansFollowTheLatestSteps) {
  JobSteps steps(1, 1);
  steps.Begin(Generation(1));
  steps.Add(0, Step(0, 1, 1));
  EXPECT_FLOAT_EQ(steps.means(0).step_s, 2);
  EXPECT_FLOAT_EQ(steps.means(0).own_s, 1);
  for (int64_t step = 1; step < 400; ++step) steps.Add(0, Step(step, 3, 1));
  EXPECT_NEAR(steps.means(0).step_s, 4, 0.001);
  EXPECT_NEAR(steps.means(0).own_s, 3, 0.001);
}

}  // namespace
}  // namespace paceline
