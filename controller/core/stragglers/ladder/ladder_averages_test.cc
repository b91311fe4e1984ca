#include "controller/core/stragglers/ladder/ladder_averages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two nodes, with one rank and three.
const std::vector<RankHome> kHomes = {{"a", ""}, {"b", ""}, {"b", ""}, {"b", ""}};

TEST(LadderAveragesTest, LevelsHaveTheGroupsOfTheirScope) {
  const auto levels = LevelsOf({{2, LadderScope::kNode, 0}, {4, LadderScope::kAll, 0}}, kHomes);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[0].period, 2);
  EXPECT_THAT(levels[0].groups, ElementsAre(1, 3));
  EXPECT_EQ(levels[1].period, 4);
  EXPECT_THAT(levels[1].groups, ElementsAre(4));
  EXPECT_THAT(LevelsOf({}, kHomes), IsEmpty());
}

TEST(LadderAveragesTest, LargestGroupCounts) {
  EXPECT_EQ(LargestGroup({1, 3}), 3);
  EXPECT_EQ(LargestGroup({}), 1);
}

TEST(LadderAveragesTest, OnlyTheWidestLevelOfAStepAverages) {
  AllReduceCosts costs;
  costs.Add(3, 0.4);
  costs.Add(4, 1.2);
  const auto levels = LevelsOf({{2, LadderScope::kNode, 0}, {8, LadderScope::kAll, 0}}, kHomes);
  // Of eight steps, three average within the nodes and one over all.
  EXPECT_NEAR(AveragesPerStep(levels, costs), (3 * 0.4 + 1.2) / 8, 1e-12);
  EXPECT_EQ(AveragesPerStep({}, costs), 0);
}

}  // namespace
}  // namespace paceline
