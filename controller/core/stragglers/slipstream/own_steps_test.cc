#include "controller/core/stragglers/slipstream/own_steps.h"

#include <gtest/gtest.h>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

TEST(OwnStepsTest, EachRankGoesThroughItsOwn) {
  const OwnSteps steps({2, 3, {1, 10, 2, 20, 3, 30}}, 0);
  EXPECT_EQ(steps.At(0, 0).own_s, 1);
  EXPECT_EQ(steps.At(1, 2).own_s, 30);
  EXPECT_EQ(steps.At(0, 4).own_s, 2);
  EXPECT_EQ(steps.At(1, 3).own_s, 10);
  EXPECT_EQ(steps.At(1, 2).frozen_s, 0);
  // Two rank-steps: rank 0 makes one every 2 s, rank 1 one every 20 s.
  EXPECT_NEAR(steps.ideal_s(), 2 / (1.0 / 2 + 1.0 / 20), 1e-9);
}

TEST(OwnStepsTest, TypicalIsAStepWithoutStalls) {
  const OwnSteps steps(Draw(Stalling(16, 0.1)), 0);
  EXPECT_NEAR(steps.typical_s(), 0.055, 1e-6);
  EXPECT_NEAR(steps.ideal_s(), 0.155, 0.01);
}

TEST(OwnStepsTest, ThatShareOfTheStallsFreezes) {
  const OwnTimes times = Draw(Stalling(32, 0.02));
  for (const double share : {0.1, 0.3, 1.0}) {
    const OwnSteps steps(times, share);
    int stalls = 0, frozen = 0;
    for (int rank = 0; rank < 32; ++rank) {
      for (int64_t step = 0; step < times.steps; ++step) {
        const OwnStep own = steps.At(rank, step);
        if (own.own_s > 0.1) ++stalls;
        if (own.frozen_s == 0) continue;
        ++frozen;
        EXPECT_NEAR(own.frozen_s, 1, 1e-6);
        EXPECT_NEAR(own.own_s, 1.055, 1e-6);
      }
    }
    EXPECT_NEAR(frozen, share * stalls, 2);
  }
}

}  // namespace
}  // namespace paceline
