#include "cli/text/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

TEST(SparklineTest, ShowsLowestToHighest) {
  EXPECT_EQ(Sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 20, true), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline({1, 2, 3, 4, 5, 6}, 20, false), "_.-=*#");
}

TEST(SparklineTest, MeansOfMoreValuesThanColumns) {
  EXPECT_EQ(Sparkline({1, 1, 1, 9, 9, 9}, 2, false), "_#");
}

TEST(SparklineTest, WhatDoesNotChangeLiesInTheMiddle) {
  EXPECT_EQ(Sparkline({5, 5, 5}, 10, false), "===");
}

TEST(SparklineTest, GapsAreShown) {
  EXPECT_EQ(Sparkline({1, 0, NAN, INFINITY, 2}, 10, false), "_   #");
  EXPECT_EQ(Sparkline({0, 0}, 10, false), "  ");
}

TEST(SparklineTest, NothingGivesNothing) {
  EXPECT_EQ(Sparkline({}, 10, true), "");
  EXPECT_EQ(Sparkline({1, 2}, 0, true), "");
}

}  // namespace
}  // namespace paceline
