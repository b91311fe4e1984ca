#include "worker/trainer/core/trend.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(TrendTest, SlopeOfALineIsItsOwn) {
  Trend trend(8);
  for (int i = 0; i < 5; ++i) trend.Add(1e6 + i, 1e9 - 3.0 * i);
  EXPECT_NEAR(trend.Slope(), -3, 1e-6);
}

TEST(TrendTest, TooFewPointsHaveNone) {
  Trend trend(8);
  EXPECT_EQ(trend.Slope(), 0);
  trend.Add(1, 5);
  EXPECT_EQ(trend.Slope(), 0);
  trend.Add(1, 9);
  EXPECT_EQ(trend.Slope(), 0);
}

TEST(TrendTest, OldPointsAreForgotten) {
  Trend trend(3);
  trend.Add(0, 1000);
  for (int i = 1; i <= 3; ++i) trend.Add(i, 2.0 * i);
  EXPECT_NEAR(trend.Slope(), 2, 1e-9);
}

TEST(TrendTest, NoiseAveragesOut) {
  Trend trend(4);
  trend.Add(0, 1);
  trend.Add(1, 0);
  trend.Add(2, 3);
  trend.Add(3, 2);
  EXPECT_NEAR(trend.Slope(), 0.6, 1e-9);
}

}  // namespace
}  // namespace paceline
