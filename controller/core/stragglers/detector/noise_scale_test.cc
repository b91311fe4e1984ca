#include "controller/core/stragglers/detector/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Rows of 64 ranks with AR(1) noise, `spoil` of which are shifted.
NoiseScale Learn(double sigma, double rho, int rows, int spoil = 0, double shift = 0) {
  NoiseScale scale(64);
  std::mt19937_64 random(static_cast<uint64_t>(rows));
  std::normal_distribution<double> normal;
  std::vector<double> values(64);
  for (double& value : values) value = normal(random);
  std::vector<double> row(64);
  for (int i = 0; i < rows; ++i) {
    for (size_t rank = 0; rank < row.size(); ++rank) {
      values[rank] = rho * values[rank] + std::sqrt(1 - rho * rho) * normal(random);
      row[rank] = sigma * values[rank] + (rank < static_cast<size_t>(spoil) ? shift : 0);
    }
    scale.AddRow(row);
  }
  return scale;
}

TEST(NoiseScaleTest, FindsDeviationAndCorrelation) {
  const NoiseLevel level = Learn(0.03, 0.6, 400).level();
  EXPECT_NEAR(level.sigma, 0.03, 0.002);
  EXPECT_NEAR(level.rho, 0.6, 0.05);
  EXPECT_NEAR(level.inflation, (1 + level.rho) / (1 - level.rho), 1e-12);
}

TEST(NoiseScaleTest, FewRanksFarOffChangeLittle) {
  EXPECT_NEAR(Learn(0.03, 0, 200, 4, 1.0).level().sigma, 0.03, 0.005);
}

TEST(NoiseScaleTest, IsNeverCertain) {
  NoiseScale scale(4);
  for (int i = 0; i < 500; ++i) scale.AddRow({0, 0, 0, kNone});
  EXPECT_EQ(scale.level().sigma, 0.005);
  scale.AddRow({kNone, kNone, kNone, kNone});
  EXPECT_EQ(scale.level().sigma, 0.005);
  EXPECT_LE(Learn(0.03, 0.999, 2000).level().rho, 0.9);
}

TEST(NoiseScaleTest, FollowsNoiseFromTheFirstRows) {
  EXPECT_GT(Learn(0.13, 0, 3).level().sigma, 0.06);
  EXPECT_NEAR(Learn(0.13, 0, 20).level().sigma, 0.13, 0.03);
}

TEST(NoiseScaleTest, RunsOfPausesAreWorthLess) {
  NoiseScale alone = Learn(0.01, 0, 100);
  NoiseScale runs = alone;
  const double before = alone.level().tail;
  for (int i = 0; i < 100; ++i) alone.AddRun(1);
  for (int i = 0; i < 50; ++i) runs.AddRun(2);
  const std::vector<double> row(64);
  alone.AddRow(row);
  runs.AddRow(row);
  EXPECT_LT(before, 0.01);
  EXPECT_NEAR(alone.level().tail, 100.0 / (101 * 64), 0.005);
  EXPECT_GT(runs.level().tail, 0.3);
}

TEST(NoiseScaleTest, HardwareIsTheSpreadOfLevelsTimesTheFarthestOfSoMany) {
  NoiseScale few(5);
  few.SetLevels({-0.02, 0.01, kNone, 0.02, 0.9});
  const double cut = 3 * 1.4826 * 0.02;
  const double deviation = std::sqrt((8 * 0.0001 + 0.0009 + cut * cut) / 12);
  EXPECT_NEAR(few.level().hardware, 4.124 * (1 + 60 / 169.0) * deviation, 0.001);
  const double before = few.level().hardware;
  few.SetLevels({kNone, kNone, kNone, 0.02, 0.9});
  EXPECT_EQ(few.level().hardware, before) << "of two";
  NoiseScale many(256);
  std::vector<double> levels(256, 0.02);
  many.SetLevels(levels);
  EXPECT_NEAR(many.level().hardware, 4.95 * 0.02, 0.002) << "Q(4.95) = 1 / 2,560,000";
}

}  // namespace
}  // namespace paceline
