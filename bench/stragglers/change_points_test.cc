#include "bench/stragglers/change_points.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/stragglers/random.h"

namespace paceline::detect {
namespace {

// Steps at which changes were reported in a series of noise with a shift from step 300 on.
std::vector<int> Told(const ChangePoints::Options& options, double shift, double pause = 0) {
  ChangePoints points(options);
  Random random(3);
  std::vector<int> told;
  for (int step = 0; step < 600; ++step) {
    double value = 0.01 * random.Normal() + (step >= 300 ? shift : 0);
    if (step == 150) value += pause;
    if (points.Add(value)) told.push_back(step);
  }
  return told;
}

TEST(ChangePointsTest, SeesARiseWithinAShortRun) {
  const std::vector<int> told = Told({}, 0.2);
  ASSERT_EQ(told.size(), 1);
  EXPECT_GE(told.front(), 304);
  EXPECT_LE(told.front(), 310);
}

TEST(ChangePointsTest, AFallIsNoRise) { EXPECT_TRUE(Told({}, -0.2).empty()); }

TEST(ChangePointsTest, NothingHappensInNoise) { EXPECT_TRUE(Told({}, 0).empty()); }

TEST(ChangePointsTest, AChangeThatIsTooSmallIsNotVerified) {
  ChangePoints::Options options;
  options.least_change = 0.1;
  EXPECT_TRUE(Told(options, 0.06).empty());
  EXPECT_EQ(Told(options, 0.2).size(), 1);
}

TEST(ChangePointsTest, OnePauseIsNoChange) { EXPECT_TRUE(Told({}, 0, 0.3).empty()); }

}  // namespace
}  // namespace paceline::detect
