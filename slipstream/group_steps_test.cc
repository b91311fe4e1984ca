#include "slipstream/group_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace paceline {
namespace {

using Kind = ComputeOrder::Kind;

// Gives these orders to a group. Returns whether the first rank's is carried out.
bool Agree(GroupSteps& group, const std::vector<Kind>& orders, int64_t update_periods = 1) {
  std::vector<double> sums = GroupSteps::Numbers(Kind::kWait);
  for (const Kind order : orders) {
    const std::vector<double> numbers = GroupSteps::Numbers(order);
    std::transform(sums.begin(), sums.end(), numbers.begin(), sums.begin(), std::plus<>());
  }
  return group.Agree(sums, orders.front(), update_periods);
}

TEST(GroupStepsTest, WhatAllAreOrderedIsCarriedOut) {
  GroupSteps group(3);
  for (const Kind kind : {Kind::kUpdate, Kind::kGradient, Kind::kStop, Kind::kEnd}) {
    EXPECT_TRUE(Agree(group, {kind, kind, kind}));
    for (const Kind other :
         {Kind::kWait, Kind::kUpdate, Kind::kGradient, Kind::kStop, Kind::kEnd}) {
      if (other == kind) continue;
      EXPECT_FALSE(Agree(group, {kind, other, kind}));
      EXPECT_FALSE(Agree(group, {other, kind, kind}));
    }
  }
}

TEST(GroupStepsTest, NothingIsDoneWhenAllWait) {
  GroupSteps group(2);
  EXPECT_FALSE(Agree(group, {Kind::kWait, Kind::kWait}));
}

TEST(GroupStepsTest, ARankThatIsAloneAsksNobody) { EXPECT_FALSE(GroupSteps(1).Asks(1)); }

TEST(GroupStepsTest, RanksAskUntilAllOfThemMakeGradients) {
  GroupSteps group(2);
  EXPECT_FALSE(group.Asks(0)) << "steps were never updates";
  EXPECT_TRUE(group.Asks(1));
  EXPECT_TRUE(Agree(group, {Kind::kUpdate, Kind::kUpdate}));
  EXPECT_TRUE(group.Asks(1));
  EXPECT_FALSE(Agree(group, {Kind::kGradient, Kind::kWait}));
  EXPECT_TRUE(group.Asks(1));
  EXPECT_TRUE(Agree(group, {Kind::kGradient, Kind::kGradient}));
  EXPECT_FALSE(group.Asks(1));
}

// The rank was making a gradient all the time, and is ordered to make the next.
TEST(GroupStepsTest, ARankThatHasMissedAPeriodOfUpdatesAsksTheOthersForIt) {
  GroupSteps group(2);
  EXPECT_TRUE(Agree(group, {Kind::kGradient, Kind::kGradient}, /*update_periods=*/1));
  EXPECT_TRUE(group.Asks(2));
  EXPECT_TRUE(Agree(group, {Kind::kGradient, Kind::kGradient}, /*update_periods=*/2));
  EXPECT_FALSE(group.Asks(2));
}

}  // namespace
}  // namespace paceline
