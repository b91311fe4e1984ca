#include "controller/core/stragglers/ladder/outer_outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A job on nodes of one rank whose means over all ranks, and exchanges of gradients, take so long.
LadderInputs InputsOf(OwnTimes times, double exchange_s) {
  LadderInputs inputs;
  inputs.homes = Homes(times.ranks, 1, times.ranks);
  inputs.times = std::move(times);
  inputs.costs.Add(inputs.times.ranks, exchange_s);
  inputs.gradient_exchange_s = exchange_s;
  return inputs;
}

OwnTimes Even(int ranks, int steps, double own_s) {
  return {ranks, steps,
          std::vector<float>(static_cast<size_t>(ranks) * static_cast<size_t>(steps),
                             static_cast<float>(own_s))};
}

// Plays the ranks' clocks step by step: all wait for one another and exchange after each `period`
// steps. Returns the mean step.
double Played(const OwnTimes& times, int64_t period, double exchange_s) {
  std::vector<double> clocks(static_cast<size_t>(times.ranks), 0);
  for (int step = 1; step <= times.steps; ++step) {
    for (size_t rank = 0; rank < clocks.size(); ++rank) {
      clocks[rank] += times.seconds[static_cast<size_t>(step - 1) * clocks.size() + rank];
    }
    if (step % period > 0) continue;
    const double together = *std::max_element(clocks.begin(), clocks.end()) + exchange_s;
    std::fill(clocks.begin(), clocks.end(), together);
  }
  return clocks.front() / times.steps;
}

TEST(OuterOutlookTest, PredictionsEqualThePlayedStepsOfAJobWithALadder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const int64_t today = 1 + static_cast<int64_t>(random() % 4);
    const int64_t period = today * (2 + static_cast<int64_t>(random() % 20));
    DrawnTimes wish = Stalling(2 + static_cast<int>(random() % 7), 0.1, 0.2);
    wish.steps = static_cast<int>(period) * (1 + static_cast<int>(random() % 3));
    wish.seed = random();
    const OwnTimes times = Draw(wish);
    const double exchange_s = 0.01 * static_cast<double>(1 + random() % 50);
    LadderInputs inputs = InputsOf(times, exchange_s);
    inputs.current = {{today, LadderScope::kAll, 0, false}};
    OuterOptions options;
    options.periods = {period};
    const OuterOutlook outlook = PredictOuterSteps(inputs, options);
    ASSERT_EQ(outlook.period, period);
    EXPECT_NEAR(outlook.today.step_s, Played(times, today, exchange_s), 1e-6);
    EXPECT_NEAR(outlook.outer.step_s, Played(times, period, exchange_s), 1e-6);
    EXPECT_NEAR(outlook.int8.step_s, Played(times, period, exchange_s / 4), 1e-6);
    EXPECT_NEAR(outlook.outer.exchange_s, exchange_s / static_cast<double>(period), 1e-9);
    EXPECT_NEAR(outlook.outer.sent / outlook.today.sent,
                static_cast<double>(today) / static_cast<double>(period), 1e-9);
    EXPECT_NEAR(outlook.int8.sent, outlook.outer.sent / 4, 1e-12);
  }
}

TEST(OuterOutlookTest, SynchronousExchangeMayHideAWholeStep) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    const int64_t period = 2 + static_cast<int64_t>(random() % 40);
    DrawnTimes wish = Stalling(2 + static_cast<int>(random() % 7), 0.1, 0.2);
    wish.steps = static_cast<int>(period) * 3;
    wish.seed = random();
    const OwnTimes times = Draw(wish);
    const double exchange_s = 0.01 * static_cast<double>(1 + random() % 50);
    const double compute_s = Played(times, 1, 0);
    OuterOptions options;
    options.periods = {period};
    const OuterOutlook outlook = PredictOuterSteps(InputsOf(times, exchange_s), options);
    EXPECT_NEAR(outlook.today.step_s, compute_s + exchange_s, 1e-6);
    EXPECT_NEAR(outlook.outer.step_s, Played(times, period, exchange_s + compute_s), 1e-6);
  }
}

TEST(OuterOutlookTest, GradientGroupsGoOnExchanging) {
  LadderInputs inputs = InputsOf(Even(8, 200, 0.1), 0.3);
  inputs.costs.Add(4, 0.2);
  inputs.gradient_groups = Equal(8, 4);
  inputs.current = {{2, LadderScope::kAll, 0, false}};
  const OuterOutlook outlook = PredictOuterSteps(inputs);
  EXPECT_NEAR(outlook.today.exchange_s, 0.3 / 2 + 0.2, 1e-9);
  EXPECT_NEAR(outlook.outer.exchange_s, 0.3 / static_cast<double>(outlook.period) + 0.2, 1e-9);
  EXPECT_NEAR(outlook.today.sent, 1.75 / 2 + 1.5, 1e-9);
  EXPECT_LT(outlook.speedup(), 1.6) << "most of the exchange stays";
}

TEST(OuterOutlookTest, NarrowLevelsOfTodayCountByTheirOwnGroups) {
  LadderInputs inputs = InputsOf(Even(8, 200, 0.1), 0.4);
  inputs.costs.Add(2, 0.1);
  inputs.current = {{2, LadderScope::kSize, 2, false}, {4, LadderScope::kAll, 0, false}};
  const OuterOutlook outlook = PredictOuterSteps(inputs);
  EXPECT_NEAR(outlook.today.exchange_s, (0.1 + 0.4) / 4, 1e-9);
  EXPECT_NEAR(outlook.today.sent, (1 + 1.75) / 4, 1e-9);
}

TEST(OuterOutlookTest, TheShortestPeriodThatIsEnoughIsTaken) {
  struct Case {
    double exchange_s;
    int steps;
    int64_t period;
  };
  // With a ladder of period 1, exchanges take exchange_s / period of 0.1 s + that.
  for (const Case& one : {Case{0.05, 1000, 10}, Case{0.1, 1000, 20}, Case{0.2, 1000, 50},
                          Case{2, 1000, 500}, Case{20, 1000, 500}, Case{2, 199, 100}}) {
    LadderInputs inputs = InputsOf(Even(4, one.steps, 0.1), one.exchange_s);
    inputs.current = {{1, LadderScope::kAll, 0, false}};
    EXPECT_EQ(PredictOuterSteps(inputs).period, one.period)
        << one.exchange_s << " s, " << one.steps << " steps";
  }
}

TEST(OuterOutlookTest, NothingIsPredictedWithoutMeasurementsOrWithAnOuterStep) {
  const LadderInputs measured = InputsOf(Even(4, 100, 0.1), 0.2);
  EXPECT_GT(PredictOuterSteps(measured).period, 0);
  LadderInputs inputs = measured;
  inputs.costs = {};
  EXPECT_EQ(PredictOuterSteps(inputs).period, 0);
  inputs = measured;
  inputs.current = {{50, LadderScope::kAll, 0, true}};
  EXPECT_EQ(PredictOuterSteps(inputs).period, 0);
  inputs.current = {{500, LadderScope::kAll, 0, false}};
  EXPECT_EQ(PredictOuterSteps(inputs).period, 0) << "no cycle was measured";
  inputs.current = {{2, LadderScope::kSize, 1, false}};
  EXPECT_EQ(PredictOuterSteps(inputs).period, 0) << "ranks exchange nothing";
  EXPECT_EQ(PredictOuterSteps(InputsOf(Even(1, 100, 0.1), 0)).period, 0);
  EXPECT_EQ(PredictOuterSteps(InputsOf(Even(4, 9, 0.1), 0.2)).period, 0);
  EXPECT_EQ(PredictOuterSteps({}).period, 0);
}

TEST(OuterOutlookTest, StallsAndSlowRanksAreNoExchange) {
  for (const OwnTimes& times : {Draw(Stalling(16, 0.05)), Draw(Slowed(5, 2))}) {
    EXPECT_LT(PredictOuterSteps(InputsOf(times, 0.001)).today.share(), 0.02);
  }
}

TEST(OuterOutlookTest, ThePersonIsToldWhatIsMeasuredPredictedAndToBeDone) {
  const OuterOutlook outlook = PredictOuterSteps(InputsOf(Even(8, 500, 0.1), 0.156));
  const std::string with_ladder = DescribeOuterSteps(outlook, "job-1", /*has_ladder=*/true);
  EXPECT_THAT(with_ladder, HasSubstr("61 % of a step is exchange, and no rank is slow"));
  EXPECT_THAT(with_ladder,
              HasSubstr("a mean every 50 steps with an outer step: predicted 2.4 times "
                        "the steps/s, 2 % of the bytes"));
  EXPECT_THAT(with_ladder, HasSubstr("up to 2.5 times, 0.5 %"));
  EXPECT_THAT(with_ladder, HasSubstr("it changes what is computed (docs/outer-steps.md)"));
  EXPECT_THAT(with_ladder, HasSubstr("`paceline job ladder job-1 50:all:nesterov/0.7/0.9`"));
  const std::string without = DescribeOuterSteps(outlook, "job-1", /*has_ladder=*/false);
  EXPECT_THAT(without, Not(HasSubstr("paceline job ladder")));
  EXPECT_THAT(without, HasSubstr("`strategy: {kind: hsgd, warmup_steps: 1, gradient_group_size: 1, "
                                 "ladder: [{period: 50, level: all, outer: {kind: nesterov}}]}`"));
  EXPECT_THAT(without, HasSubstr("`resume_from: job-1`"));
}

}  // namespace
}  // namespace paceline
