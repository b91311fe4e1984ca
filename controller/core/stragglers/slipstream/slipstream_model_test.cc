#include "controller/core/stragglers/slipstream/slipstream_model.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_model.h"
#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;

constexpr WindowBounds Steps(int64_t steps) { return {steps, steps, 256}; }

double SynchronousStep(const OwnTimes& times) {
  const std::vector<double> steps = LadderModel(times, {}).synchronous();
  return std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
}

// As in the notes' simulation: 3 % jitter, stalls of 18 steps, 45 MB in two levels of rings.
OwnTimes Noted64(double stall_share) {
  DrawnTimes wish = Stalling(64, stall_share, 18 * 0.055);
  wish.jitter = 0.03;
  return Draw(wish);
}
constexpr SlipstreamCosts kNoted = {0.0003, 0.039, 0.0001};

struct Speedups {
  double drop, free_2, free_8;
};

Speedups SpeedupsOf(const OwnTimes& times) {
  const OwnSteps steps(times, 0);
  const double synchronous = SynchronousStep(times);
  SlipstreamCosts small = kNoted;
  small.reduce_s = 0.001;  // Gradients travel during the backward pass.
  return {synchronous / PredictSlipstream(steps, small, Mode::kDrop).step_s,
          synchronous / PredictSlipstream(steps, kNoted, Mode::kFree, Steps(2)).step_s,
          synchronous / PredictSlipstream(steps, kNoted, Mode::kFree, Steps(8)).step_s};
}

TEST(SlipstreamModelTest, SpeedupsAreThoseOfTheNotes) {
  const std::vector<std::pair<double, Speedups>> noted = {{0.005, {4.81, 5.34, 5.43}},
                                                          {0.01, {7.25, 8.06, 8.19}},
                                                          {0.02, {9.07, 10.1, 10.3}},
                                                          {0.05, {8.42, 9.52, 9.67}},
                                                          {0.3, {1.52, 2.92, 2.97}}};
  for (const auto& [stall_share, expected] : noted) {
    SCOPED_TRACE(stall_share);
    const Speedups predicted = SpeedupsOf(Noted64(stall_share));
    // With more stalls, the notes' prototype makes rounds with fewer gradients.
    if (stall_share <= 0.05) {
      EXPECT_NEAR(predicted.drop / expected.drop, 1, 0.1);
    }
    EXPECT_NEAR(predicted.free_2 / expected.free_2, 1, 0.1);
    EXPECT_NEAR(predicted.free_8 / expected.free_8, 1, 0.1);
  }
}

TEST(SlipstreamModelTest, FreezingStallsCostWhatTheNotesSay) {
  struct Noted {
    double freezing_share, drop, free_8, free_64, pause_64;
  };
  const OwnTimes times = Noted64(0.02);
  const double synchronous = SynchronousStep(times);
  for (const Noted& noted : {Noted{0.3, 2.1, 8.0, 10.1, 8.4}, Noted{1, 1.1, 6.2, 8.2, 8.4}}) {
    SCOPED_TRACE(noted.freezing_share);
    const OwnSteps steps(times, noted.freezing_share);
    const auto speedup = [&](Mode mode, const WindowBounds& bounds) {
      return synchronous / PredictSlipstream(steps, kNoted, mode, bounds).step_s;
    };
    EXPECT_NEAR(speedup(Mode::kDrop, {}) / noted.drop, 1, 0.15);
    EXPECT_NEAR(speedup(Mode::kPause, Steps(64)) / noted.pause_64, 1, 0.03);
    // Windows and caps follow the collective, unlike in the notes.
    EXPECT_GE(speedup(Mode::kFree, Steps(8)), noted.free_8);
    EXPECT_GE(speedup(Mode::kFree, Steps(64)), noted.free_64);
    EXPECT_GE(speedup(Mode::kFree, {}), noted.free_64);
  }
}

TEST(SlipstreamModelTest, WithoutStallsAStepIsAStepAndWhatIsInItsWay) {
  DrawnTimes wish;
  wish.ranks = 8;
  const OwnSteps steps(Draw(wish), 0);
  const SlipstreamCosts costs = {0.001, 0.01, 0.002};
  const SlipstreamPrediction free = PredictSlipstream(steps, costs, Mode::kFree);
  EXPECT_NEAR(free.step_s, 0.055 + 0.002, 1e-3);
  EXPECT_EQ(free.used, 1);
  const SlipstreamPrediction sync = PredictSlipstream(steps, costs, Mode::kSync);
  EXPECT_NEAR(sync.step_s, 0.055 + 0.001 + 0.01 + 3 * 0.002, 1e-6);
  EXPECT_NEAR(sync.share, 0.055 / sync.step_s, 1e-6);
  const SlipstreamPrediction drop = PredictSlipstream(steps, costs, Mode::kDrop);
  EXPECT_EQ(drop.used, 1);
  EXPECT_NEAR(drop.step_s, sync.step_s, 0.003);
}

TEST(SlipstreamModelTest, OneSlowRankHoldsUpNobodyElse) {
  DrawnTimes wish = Slowed(5, 1.5);
  const OwnTimes times = Draw(wish);
  const OwnSteps steps(times, 0);
  EXPECT_NEAR(SynchronousStep(times) / PredictSlipstream(steps, kNoted, Mode::kFree).step_s, 1.5,
              0.02);
}

TEST(SlipstreamModelTest, WindowsGrowWithTheCollective) {
  DrawnTimes wish;
  wish.ranks = 8;
  const OwnSteps steps(Draw(wish), 0);
  SlipstreamCosts costs;
  EXPECT_NEAR(PredictSlipstream(steps, costs, Mode::kFree).window_steps, 2, 1e-6);
  costs.reduce_s = 0.35;
  EXPECT_NEAR(PredictSlipstream(steps, costs, Mode::kFree).window_steps, 1 / 0.055, 1e-3);
}

TEST(SlipstreamModelTest, RanksWaitWhenTheyAreACapAhead) {
  const OwnSteps steps(Noted64(0.02), 1);
  const WindowBounds tight = {32, 32, 8}, wide = {32, 32, 256};
  EXPECT_GT(PredictSlipstream(steps, kNoted, Mode::kFree, tight).step_s,
            2 * PredictSlipstream(steps, kNoted, Mode::kFree, wide).step_s);
}

TEST(SlipstreamModelTest, NothingIsSaidOfStepsThatTakeNoTime) {
  const OwnSteps steps({2, 2, {0, 0, 0, 0}}, 0);
  EXPECT_EQ(PredictSlipstream(steps, {}, Mode::kFree).step_s, 0);
}

}  // namespace
}  // namespace paceline
