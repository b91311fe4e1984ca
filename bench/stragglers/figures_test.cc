#include "bench/stragglers/figures.h"

#include <gtest/gtest.h>

namespace paceline::detect {
namespace {

TEST(DelaysTest, QuantilesAreValuesThatOccurred) {
  Delays times;
  for (int steps = 1; steps <= 100; ++steps) times.Add(steps);
  EXPECT_EQ(times.Quantile(0.5), 50);
  EXPECT_EQ(times.Quantile(0.99), 99);
  EXPECT_EQ(times.Quantile(1), 100);
  EXPECT_EQ(times.Quantile(0.001), 1);
}

TEST(DelaysTest, NothingHasNoQuantile) { EXPECT_EQ(Delays().Quantile(0.5), -1); }

TEST(FiguresTest, MergingAddsUp) {
  Figures a;
  a.rank_steps = 10;
  a.found = 2;
  a.to_suspect.Add(4);
  Figures b;
  b.rank_steps = 5;
  b.wrong_drains = 1;
  b.to_suspect.Add(6);
  a.Merge(b);
  EXPECT_EQ(a.rank_steps, 15);
  EXPECT_EQ(a.found, 2);
  EXPECT_EQ(a.wrong_drains, 1);
  EXPECT_EQ(a.to_suspect.Quantile(1), 6);
  EXPECT_EQ(a.to_suspect.count(), 2);
}

}  // namespace
}  // namespace paceline::detect
