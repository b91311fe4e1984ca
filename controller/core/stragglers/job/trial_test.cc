#include "controller/core/stragglers/job/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace paceline {
namespace {

constexpr int kRanks = 4;

TrialSetup OnFourNodes() {
  TrialSetup setup;
  for (int rank = 0; rank < kRanks; ++rank) {
    setup.homes.push_back({std::string(1, static_cast<char>('a' + rank)), ""});
  }
  return setup;
}

// Own times of 1 s, some of 2 s; `total_s` is the duration of the row.
StepRow Row(int64_t step, double total_s) {
  StepRow row;
  row.step = step;
  row.total_s = total_s;
  for (int rank = 0; rank < kRanks; ++rank)
    row.own_s.push_back((7 * step + 3 * rank) % 10 == 0 ? 2 : 1);
  return row;
}

TEST(TrialTest, LadderIsComparedWithTheSameStepsDoneSynchronously) {
  TrialSetup setup = OnFourNodes();
  setup.present = {{8, LadderScope::kAll, 0}};
  Trial trial(setup);
  double slowest = 0;
  for (int64_t step = 100; step < 132; ++step) {
    const StepRow row = Row(step, 1.25);
    slowest += *std::max_element(row.own_s.begin(), row.own_s.end());
    const auto compared = trial.Add(row, {}, 0.5);
    ASSERT_EQ(compared.has_value(), step == 131);
    if (!compared.has_value()) continue;
    EXPECT_EQ(compared->first_step, 100);
    EXPECT_EQ(compared->steps, 32);
    EXPECT_NEAR(compared->with_s, 32 * 1.25, 1e-9);
    EXPECT_NEAR(compared->without_s, slowest + 32 * 0.5, 1e-4);
  }
}

TEST(TrialTest, ReplacedRankIsAsSlowAsItWas) {
  TrialSetup setup = OnFourNodes();
  setup.replaced = {2};
  setup.slowdown = 3;
  Trial trial(setup);
  std::optional<ComparedSteps> compared;
  for (int64_t step = 0; step < 32; ++step) {
    StepRow row;
    row.step = step;
    row.total_s = 1;
    row.own_s.assign(kRanks, 1);
    compared = trial.Add(row, {}, 0.25);
  }
  ASSERT_TRUE(compared.has_value());
  EXPECT_NEAR(compared->without_s, 32 * 3.25, 1e-4);
}

TEST(TrialTest, TrialOfNothingMeasuresTheOverheadOfTheNext) {
  Trial nothing(OnFourNodes());
  TrialSetup setup = OnFourNodes();
  setup.replaced = {2};
  setup.slowdown = 1.5;
  std::optional<ComparedSteps> before;
  for (int64_t step = 0; step < 32; ++step) {
    StepRow row;
    row.step = step;
    row.total_s = 1.8;  // A fifth more than the slow rank's 1.5.
    row.own_s = {1, 1, 1.5, 1};
    before = nothing.Add(row, {}, 0);
  }
  ASSERT_TRUE(before.has_value());
  setup.overhead = before->with_s / before->without_s;
  EXPECT_NEAR(setup.overhead, 1.2, 1e-6);
  Trial trial(setup);
  std::optional<ComparedSteps> after;
  for (int64_t step = 32; step < 64; ++step) {
    StepRow row;
    row.step = step;
    row.total_s = 1.2;
    row.own_s = {1, 1, 1, 1};
    after = trial.Add(row, {}, 0);
  }
  ASSERT_TRUE(after.has_value());
  EXPECT_NEAR(after->without_s, 32 * 1.8, 1e-4);
}

TEST(TrialTest, FormerLadderPaysForItsAverages) {
  TrialSetup setup = OnFourNodes();
  setup.former = {{2, LadderScope::kSize, 2}, {4, LadderScope::kAll, 0}};
  Trial trial(setup);
  AllReduceCosts averaging;
  averaging.Add(2, 0.4);
  averaging.Add(4, 1.2);
  std::optional<ComparedSteps> compared;
  for (int64_t step = 0; step < 32; ++step) {
    StepRow row;
    row.step = step;
    row.total_s = 1;
    row.own_s.assign(kRanks, 1);
    compared = trial.Add(row, averaging, 0);
  }
  ASSERT_TRUE(compared.has_value());
  // Of four steps one averages over all, another over pairs.
  EXPECT_NEAR(compared->without_s, 32 + 8 * 1.2 + 8 * 0.4, 1e-4);
}

TEST(TrialTest, BlocksAreWholeCyclesOfBothLadders) {
  TrialSetup setup = OnFourNodes();
  setup.former = {{12, LadderScope::kAll, 0}};
  setup.present = {{8, LadderScope::kAll, 0}};
  Trial trial(setup);
  int64_t step = 0;
  while (!trial.Add(Row(step, 1), {}, 0).has_value()) ASSERT_LT(++step, 100);
  EXPECT_EQ(step + 1, 48);

  setup.former = {{1000, LadderScope::kAll, 0}};
  Trial endless(setup);
  for (step = 0; step < 3000; ++step) {
    ASSERT_FALSE(endless.Add(Row(step, 1), {}, 0).has_value());
  }
}

}  // namespace
}  // namespace paceline
