#include "slipstream/rank_steps.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(RankStepsTest, AStepIsAsManyRankStepsAsThereAreRanks) {
  RankSteps total(4);
  total.Add(3);
  EXPECT_EQ(total.steps(), 0);
  total.Add(1);
  EXPECT_EQ(total.steps(), 1);
  total.Add(10);
  EXPECT_EQ(total.steps(), 3);
  EXPECT_EQ(total.remainder(), 2);
}

TEST(RankStepsTest, PartsOfAnySizeAddUpToTheSame) {
  RankSteps parts(7);
  for (int i = 0; i < 100; ++i) parts.Add(i);
  RankSteps whole(7);
  whole.Add(99 * 100 / 2);
  EXPECT_EQ(parts, whole);
}

TEST(RankStepsTest, AnotherNumberOfRanksKeepsTheStepsAndThePartOfOne) {
  const RankSteps total(8, 100, 6);
  EXPECT_EQ(total.WithRanks(4), RankSteps(4, 100, 3));
  EXPECT_EQ(total.WithRanks(16), RankSteps(16, 100, 12));
  EXPECT_EQ(total.WithRanks(7), RankSteps(7, 100, 5)) << "rounded down";
  EXPECT_EQ(total.WithRanks(1), RankSteps(1, 100, 0));
}

}  // namespace
}  // namespace paceline
