#include "controller/core/stragglers/job/gradient_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One rank on a, three on b.
const std::vector<RankHome> kHomes = {{"a", ""}, {"b", ""}, {"b", ""}, {"b", ""}};

JobStrategy Hsgd(int gradient_group_size) {
  JobStrategy strategy;
  strategy.has_ladder = true;
  strategy.gradient_group_size = gradient_group_size;
  return strategy;
}

TEST(GradientGroupsTest, AreTheRanksOfANodeUnlessTheirSizeIsSaid) {
  EXPECT_THAT(GradientGroups(Hsgd(0), kHomes), ElementsAre(1, 3));
  EXPECT_THAT(GradientGroups(Hsgd(2), kHomes), ElementsAre(2, 2));
}

TEST(GradientGroupsTest, RanksThatAreAloneExchangeNothing) {
  EXPECT_THAT(GradientGroups(Hsgd(1), kHomes), IsEmpty());
  EXPECT_THAT(GradientGroups(Hsgd(0), {{"a", ""}, {"b", ""}}), IsEmpty());
  EXPECT_THAT(GradientGroups(JobStrategy(), kHomes), IsEmpty()) << "all ranks at each step";
}

}  // namespace
}  // namespace paceline
