#include "controller/core/stragglers/ladder/ladder_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

double Ring(int ranks, double latency, double transfer) {
  return 2 * (ranks - 1) * (latency + transfer / ranks);
}

TEST(AllReduceCostsTest, NothingMeasuredCostsNothing) {
  AllReduceCosts costs;
  EXPECT_TRUE(costs.empty());
  EXPECT_EQ(costs.Of(8), 0);
}

TEST(AllReduceCostsTest, NonsenseChangesNothing) {
  AllReduceCosts costs;
  costs.Add(1, 0.1);
  costs.Add(0, 0.1);
  costs.Add(8, -1);
  costs.Add(8, std::nan(""));
  costs.Add(8, HUGE_VAL);
  EXPECT_TRUE(costs.empty());
}

TEST(AllReduceCostsTest, MeasuredSizeCostsTheMeanThatForgets) {
  AllReduceCosts costs;
  for (int i = 0; i < 10; ++i) costs.Add(8, 0.1);
  EXPECT_DOUBLE_EQ(costs.Of(8), 0.1);
  costs.Add(8, 0.2);
  EXPECT_DOUBLE_EQ(costs.Of(8), 0.11);
  for (int i = 0; i < 100; ++i) costs.Add(8, 0.2);
  EXPECT_NEAR(costs.Of(8), 0.2, 1e-4);
}

TEST(AllReduceCostsTest, OfOneSizeTheDearerModelCounts) {
  AllReduceCosts costs;
  costs.Add(8, 0.07);
  EXPECT_DOUBLE_EQ(costs.Of(64), 0.07 * 63 / 7) << "all latency";
  EXPECT_DOUBLE_EQ(costs.Of(2), 0.07 * (1.0 / 2) / (7.0 / 8)) << "all transfer";
  EXPECT_EQ(costs.Of(1), 0);
}

TEST(AllReduceCostsTest, OfOneSizeTheBytesLimitTheTransfer) {
  AllReduceCosts few;  // 10 ms of transfer at most.
  few.Add(8, 0.07, 1e6);
  EXPECT_DOUBLE_EQ(few.Of(2), 0.01 * (1.0 / 2) / (7.0 / 8) + 0.06 / 7);
  EXPECT_DOUBLE_EQ(few.Of(64), 0.07 * 63 / 7) << "all latency";
  AllReduceCosts many;
  many.Add(8, 0.07, 1e9);
  EXPECT_DOUBLE_EQ(many.Of(2), 0.07 * (1.0 / 2) / (7.0 / 8)) << "all transfer";
}

TEST(AllReduceCostsTest, TwoSizesTellLatencyFromTransfer) {
  AllReduceCosts costs;
  costs.Add(4, Ring(4, 1e-4, 0.02));
  costs.Add(32, Ring(32, 1e-4, 0.02));
  for (const int ranks : {2, 8, 64, 1024}) {
    EXPECT_NEAR(costs.Of(ranks) / Ring(ranks, 1e-4, 0.02), 1, 1e-9) << ranks;
  }
}

TEST(AllReduceCostsTest, NoParameterIsBelowZero) {
  AllReduceCosts falling;  // A wider group was faster: no latency.
  falling.Add(2, 0.1);
  falling.Add(64, 0.05);
  EXPECT_GT(falling.Of(1024), 0.03);
  EXPECT_LT(falling.Of(1024), 0.1);
  AllReduceCosts rising;  // Rises more than latency explains: no transfer.
  rising.Add(2, 0.01);
  rising.Add(64, 1);
  EXPECT_NEAR(rising.Of(128) / rising.Of(32), 127.0 / 31, 1e-9);
}

TEST(AllReduceCostsTest, MoreSizesAreFitted) {
  AllReduceCosts costs;
  costs.Add(2, 1.1 * Ring(2, 1e-3, 0.05));
  costs.Add(8, 0.9 * Ring(8, 1e-3, 0.05));
  costs.Add(32, 1.1 * Ring(32, 1e-3, 0.05));
  EXPECT_NEAR(costs.Of(16) / Ring(16, 1e-3, 0.05), 1, 0.15);
  costs.Add(4, 0);  // Too short to be measured.
  EXPECT_NEAR(costs.Of(16) / Ring(16, 1e-3, 0.05), 1, 0.15);
}

}  // namespace
}  // namespace paceline
