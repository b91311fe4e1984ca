#include "bench/stragglers/warm_up.h"

#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"

namespace paceline::detect {
namespace {

// A trace of eight workers in two stages; each usual time is multiplied by `factor(step, worker)`.
template <typename Factor>
int WarmUp(int steps, const Factor& factor, const std::string& more = "") {
  std::string text = "step,dp,stage,fwd_s,bwd_s,wall_s,generation\n";
  for (int step = 0; step < steps; ++step) {
    for (int worker = 0; worker < 8; ++worker) {
      const double usual = (1 + 0.1 * worker) * (1 + 0.002 * ((step * 7 + worker * 3) % 5));
      absl::StrAppend(&text, step, ",", worker, ",", worker / 4, ",",
                      0.3 * usual * factor(step, worker), ",", 0.7 * usual * factor(step, worker),
                      ",0,1\n");
    }
  }
  std::istringstream csv(text + more);
  const auto trace = ReadTrace(csv);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return WarmUpSteps(*trace, trace->generations.size() - 1);
}

TEST(WarmUpTest, EndsWhenStepsAreUsual) {
  EXPECT_EQ(WarmUp(400, [](int, int) { return 1; }), 0);
  EXPECT_EQ(WarmUp(400, [](int step, int) { return step == 0 ? 20 : 1; }), 1);
  EXPECT_EQ(WarmUp(400, [](int step, int) { return step == 0 || step == 11 ? 3 : 1; }), 12);
  EXPECT_EQ(WarmUp(400, [](int step, int) { return step < 9 ? 2 - 0.1 * step : 1; }), 9);
}

TEST(WarmUpTest, IsNoMoreThanTwentyStepsOrAQuarter) {
  EXPECT_EQ(WarmUp(400, [](int step, int) { return step < 100 ? 1.5 : 1; }), 20);
  EXPECT_EQ(WarmUp(44, [](int step, int) { return step < 15 ? 1.5 : 1; }), 11);
  EXPECT_EQ(WarmUp(3, [](int step, int) { return step < 1 ? 1.5 : 1; }), 0);
}

TEST(WarmUpTest, AStageMayWarmUpAlone) {
  EXPECT_EQ(WarmUp(400, [](int step, int worker) { return step < 5 && worker >= 4 ? 2 : 1; }), 5);
}

TEST(WarmUpTest, ASlowWorkerIsNoWarmUp) {
  EXPECT_EQ(WarmUp(400, [](int, int worker) { return worker == 2 ? 1.5 : 1; }), 0);
  EXPECT_EQ(WarmUp(400, [](int step, int worker) { return worker == 2 && step < 15 ? 3 : 1; }), 0);
}

TEST(WarmUpTest, EachGenerationHasItsOwn) {
  std::string second;
  for (int step = 0; step < 50; ++step) {
    for (int worker = 0; worker < 8; ++worker) {
      absl::StrAppend(&second, step, ",", worker, ",0,", step < 3 ? 2 : 1, ",1,0,2\n");
    }
  }
  EXPECT_EQ(WarmUp(
                400, [](int, int) { return 1; }, second),
            3);
}

TEST(WarmUpTest, StepsWithoutTimesAreNone) {
  EXPECT_EQ(WarmUp(100, [](int, int) { return -1; }), 0);
  EXPECT_EQ(WarmUp(100, [](int, int) { return 0; }), 0);
}

}  // namespace
}  // namespace paceline::detect
