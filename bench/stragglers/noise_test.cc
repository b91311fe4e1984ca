#include "bench/stragglers/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace paceline::detect {
namespace {

constexpr int kRanks = 64;
constexpr int kSteps = 4000;

struct Moments {
  double mean = 0;
  double sd = 0;
  double rho = 0;
  double kurtosis = 0;
  double skew = 0;
};

Moments Measure(Noise kind, double sd, double rho) {
  NoiseModel noise(kind, sd, rho, kRanks, 8, 7);
  std::vector<double> last(kRanks);
  double n = 0, sum = 0, squares = 0, products = 0, cubes = 0, fourths = 0;
  for (int step = 0; step < kSteps; ++step) {
    noise.NextStep();
    for (int rank = 0; rank < kRanks; ++rank) {
      const double x = noise.Next(rank);
      if (step > 0) products += x * last[static_cast<size_t>(rank)];
      last[static_cast<size_t>(rank)] = x;
      sum += x;
      squares += x * x;
      cubes += x * x * x;
      fourths += x * x * x * x;
      ++n;
    }
  }
  const double variance = squares / n;
  return {sum / n, std::sqrt(variance), products / squares, fourths / n / variance / variance,
          cubes / n / std::pow(variance, 1.5)};
}

class NoiseTest : public testing::TestWithParam<Noise> {};

TEST_P(NoiseTest, HasItsMeanAndDeviation) {
  const Moments moments = Measure(GetParam(), 0.02, 0.3);
  EXPECT_NEAR(moments.mean, 0, 5e-4);
  EXPECT_NEAR(moments.sd, 0.02, 0.0015);
}

// Only models that are drawn: noise from traces has the traces' correlation.
class DrawnNoiseTest : public NoiseTest {};

TEST_P(DrawnNoiseTest, IsCorrelatedFromStepToStep) {
  EXPECT_NEAR(Measure(GetParam(), 0.02, 0.8).rho, 0.8, 0.03);
  EXPECT_NEAR(Measure(GetParam(), 0.02, 0).rho, 0, 0.03);
}

constexpr Noise kDrawn[] = {Noise::kGaussian, Noise::kLaplace, Noise::kLogNormal,
                            Noise::kStudent,  Noise::kBursts,  Noise::kQuantised};

INSTANTIATE_TEST_SUITE_P(Drawn, NoiseTest, testing::ValuesIn(kDrawn));
INSTANTIATE_TEST_SUITE_P(Real, NoiseTest, testing::Values(Noise::kReal));
INSTANTIATE_TEST_SUITE_P(Drawn, DrawnNoiseTest, testing::ValuesIn(kDrawn));

TEST(NoiseShapeTest, ModelsDifferInTheirTails) {
  EXPECT_NEAR(Measure(Noise::kGaussian, 1, 0).kurtosis, 3, 0.1);
  EXPECT_NEAR(Measure(Noise::kLaplace, 1, 0).kurtosis, 6, 0.4);
  EXPECT_GT(Measure(Noise::kStudent, 1, 0).kurtosis, 8);
  EXPECT_GT(Measure(Noise::kBursts, 1, 0).kurtosis, 4.5);
  EXPECT_GT(Measure(Noise::kLogNormal, 1, 0).skew, 2.5);
  EXPECT_LT(Measure(Noise::kReal, 1, 0).kurtosis, 4);
}

}  // namespace
}  // namespace paceline::detect
