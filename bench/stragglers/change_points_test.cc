#include "bench/stragglers/change_points.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/stragglers/random.h"

namespace paceline::detect {
namespace {

// Steps at which changes were reported in a series of noise with a shift from step 300 on.
std::vector<int> Reported(const ChangePoints::Options& options, double shift, double pause = 0) {
  ChangePoints points(options);
  Random random(3);
  std::vector<int> reported;
  for (int step = 0; step < 600; ++step) {
    double value = 0.01 * random.Normal() + (step >= 300 ? shift : 0);
    if (step == 150) value += pause;
    if (points.Add(value)) reported.push_back(step);
  }
  return reported;
}

TEST(ChangePointsTest, SeesARiseWithinAShortRun) {
  const std::vector<int> reported = Reported({}, 0.2);
  ASSERT_EQ(reported.size(), 1);
  EXPECT_GE(reported.front(), 304);
  EXPECT_LE(reported.front(), 310);
}

TEST(ChangePointsTest, AFallIsNoRise) { EXPECT_TRUE(Reported({}, -0.2).empty()); }

TEST(ChangePointsTest, NothingHappensInNoise) { EXPECT_TRUE(Reported({}, 0).empty()); }

TEST(ChangePointsTest, AChangeThatIsTooSmallIsNotVerified) {
  ChangePoints::Options options;
  options.least_change = 0.1;
  EXPECT_TRUE(Reported(options, 0.06).empty());
  EXPECT_EQ(Reported(options, 0.2).size(), 1);
}

TEST(ChangePointsTest, OnePauseIsNoChange) { EXPECT_TRUE(Reported({}, 0, 0.3).empty()); }

}  // namespace
}  // namespace paceline::detect
