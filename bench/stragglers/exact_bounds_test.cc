#include "bench/stragglers/exact_bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline::detect {
namespace {

// Chance of `k` or more successes in `n` trials, term by term.
double AtLeast(int k, int n, double p) {
  double sum = 0;
  for (int i = k; i <= n; ++i) {
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) +
                    i * std::log(p) + (n - i) * std::log1p(-p));
  }
  return sum;
}

TEST(ClopperPearsonTest, WithoutAMissTheBoundIsARoot) {
  for (const int n : {1, 6, 300, 368, 100000}) {
    const Interval interval = ClopperPearson(n, n);
    EXPECT_NEAR(interval.low, std::pow(0.025, 1.0 / n), 1e-9) << n;
    EXPECT_EQ(interval.high, 1) << n;
  }
}

TEST(ClopperPearsonTest, BoundsAreWhereTheTailsAreRareEnough) {
  for (const auto& [k, n] : {std::pair(1, 10), {3, 10}, {498, 499}, {250, 1000}, {990, 1000}}) {
    const Interval interval = ClopperPearson(k, n);
    EXPECT_NEAR(AtLeast(k, n, interval.low), 0.025, 1e-6) << k << " of " << n;
    EXPECT_NEAR(1 - AtLeast(k + 1, n, interval.high), 0.025, 1e-6) << k << " of " << n;
  }
}

TEST(ClopperPearsonTest, NothingSeenProvesNothing) {
  const Interval interval = ClopperPearson(0, 0);
  EXPECT_EQ(interval.low, 0);
  EXPECT_EQ(interval.high, 1);
}

TEST(PoissonUpperTest, IsThePublishedTable) {
  // W. Ricker, "The concept of confidence or fiducial limits", 1937, and chi-square tables.
  EXPECT_NEAR(PoissonUpper(0), 2.9957, 1e-4);
  EXPECT_NEAR(PoissonUpper(1), 4.7439, 1e-4);
  EXPECT_NEAR(PoissonUpper(3), 7.7537, 1e-4);
  EXPECT_NEAR(PoissonUpper(10), 16.9622, 1e-4);
  EXPECT_NEAR(PoissonUpper(100), 118.0793, 1e-3);
}

TEST(PoissonUpperTest, LargeCountsAreNearTheirSquareRoot) {
  EXPECT_NEAR(PoissonUpper(76689), 76689 + 1.645 * std::sqrt(76689.0), 5);
}

}  // namespace
}  // namespace paceline::detect
