#include "worker/daemon/core/sample_rate.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(SampleRateTest, NoStepsNoRate) { EXPECT_EQ(SampleRate().PerSecond(At(1)), 0); }

TEST(SampleRateTest, SteadyStepsGiveTheirRate) {
  SampleRate rate;
  for (int i = 1; i <= 100; ++i) rate.Add(At(0.1 * i), absl::Seconds(0.1), 32);
  EXPECT_NEAR(rate.PerSecond(At(10)), 320, 1e-6);
}

TEST(SampleRateTest, OldStepsNoLongerCount) {
  SampleRate rate;
  for (int i = 1; i <= 50; ++i) rate.Add(At(0.1 * i), absl::Seconds(0.1), 32);
  for (int i = 1; i <= 50; ++i) rate.Add(At(5 + 0.1 * i), absl::Seconds(0.1), 64);
  EXPECT_NEAR(rate.PerSecond(At(10)), 640, 1e-6);
}

TEST(SampleRateTest, StepLongerThanTheWindowStillHasARate) {
  SampleRate rate;
  rate.Add(At(10), absl::Seconds(10), 50);
  rate.Add(At(20), absl::Seconds(10), 50);
  EXPECT_NEAR(rate.PerSecond(At(25)), 5, 1e-6);
}

TEST(SampleRateTest, StepsThatAllEndAtOnceDoNotPileUp) {
  SampleRate rate;
  constexpr int kMany = 2 * static_cast<int>(SampleRate::kMaxSteps);
  for (int i = 0; i < kMany; ++i) rate.Add(At(10), absl::Seconds(1), 1);
  EXPECT_EQ(rate.PerSecond(At(10)), SampleRate::kMaxSteps);
}

TEST(SampleRateTest, StuckTrainerFallsTowardsZero) {
  SampleRate rate;
  for (int i = 1; i <= 50; ++i) rate.Add(At(0.1 * i), absl::Seconds(0.1), 32);
  const double soon = rate.PerSecond(At(8));
  EXPECT_LT(soon, 320);
  EXPECT_LT(rate.PerSecond(At(80)), soon / 5);
}

}  // namespace
}  // namespace paceline
