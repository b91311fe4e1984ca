#include "slipstream/window.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr absl::Duration kStep = absl::Milliseconds(50);

constexpr int64_t kLate = 100'000;  // Steps done.

Window::Round Usual(absl::Duration collective = absl::Milliseconds(1)) {
  return {kStep, collective, absl::ZeroDuration(), false, kLate};
}

Window::Round Stretched() {
  Window::Round round = Usual();
  round.stretched = true;
  return round;
}

double StepsOf(const Window& window, const WindowBounds& bounds = {}) {
  return absl::FDivDuration(window.Length(bounds), kStep);
}

TEST(WindowTest, IsTwoStepsOnAFastNetwork) {
  Window window;
  window.Add(Usual());
  EXPECT_DOUBLE_EQ(StepsOf(window), 2);
  EXPECT_EQ(window.Cap({}), 8);
}

TEST(WindowTest, ACollectiveTakesAThirdOfItAtMost) {
  Window window;
  window.Add(Usual(/*collective=*/absl::Milliseconds(70)));
  EXPECT_NEAR(StepsOf(window), 4, 1e-6);
}

TEST(WindowTest, CopiesTakeThreePercentOfItAtMost) {
  Window window;
  Window::Round round = Usual();
  round.copies = absl::Milliseconds(15);
  window.Add(round);
  EXPECT_NEAR(StepsOf(window), 10, 1e-6);
}

TEST(WindowTest, StaysWithinItsBounds) {
  Window window;
  window.Add(Usual(/*collective=*/absl::Seconds(10)));
  EXPECT_DOUBLE_EQ(StepsOf(window, {1, 16}), 16);
  EXPECT_EQ(window.Cap({1, 16}), 64);
  window.Add(Usual());
  EXPECT_DOUBLE_EQ(StepsOf(window, {5, 16}), 5);
  EXPECT_DOUBLE_EQ(StepsOf(window, {1, 1}), 1);
  EXPECT_EQ(window.Cap({1, 1}), 4);
  EXPECT_EQ(window.Cap({1, 1, 1}), 1);
}

TEST(WindowTest, HasALengthBeforeAnythingIsKnown) {
  const Window window;
  EXPECT_EQ(window.Length({}), absl::Milliseconds(100));
  EXPECT_EQ(window.Cap({}), 8);
}

TEST(WindowTest, ARoundThatTellsNothingChangesNothing) {
  Window window;
  window.Add(Usual(/*collective=*/absl::Milliseconds(70)));
  Window::Round silent;
  silent.done = kLate;
  window.Add(silent);
  EXPECT_NEAR(StepsOf(window), 4, 1e-6);
}

TEST(WindowTest, IsShortWhileTheTrainingIsYoung) {
  Window window;
  Window::Round round = Usual(/*collective=*/absl::Seconds(10));
  for (const int64_t done : {0, 20, 32}) {
    round.done = done;
    window.Add(round);
    EXPECT_DOUBLE_EQ(StepsOf(window), 2) << done;
    EXPECT_EQ(window.Cap({}), 8);
    EXPECT_DOUBLE_EQ(StepsOf(window, {5, 16}), 5) << "but not shorter than the job wants it";
  }
  round.done = 160;
  window.Add(round);
  EXPECT_DOUBLE_EQ(StepsOf(window), 10);
  EXPECT_EQ(window.Cap({}), 40);
  round.done = kLate;
  window.Add(round);
  EXPECT_DOUBLE_EQ(StepsOf(window), 64);
}

TEST(WindowTest, FreezesDoNotMakeItLongWhileTheTrainingIsYoung) {
  Window window;
  Window::Round round = Stretched();
  round.done = 160;
  for (int i = 0; i < 3 * Window::kRoundsPerLook; ++i) window.Add(round);
  EXPECT_EQ(window.frozen_steps(), 64);
  EXPECT_DOUBLE_EQ(StepsOf(window), 10);
}

TEST(WindowTest, ARoundMayTakeAsLongAsNobodyWaitsForIt) {
  Window window;
  EXPECT_EQ(window.Patience(), absl::InfiniteDuration());
  window.Add(Usual());
  EXPECT_EQ(window.Patience(), 6 * kStep);
  window.Add(Usual(/*collective=*/absl::Milliseconds(70)));
  EXPECT_NEAR(absl::FDivDuration(window.Patience(), kStep), 12, 1e-6);
  for (int i = 0; i < 3 * Window::kRoundsPerLook; ++i) window.Add(Stretched());
  EXPECT_EQ(window.Patience(), 6 * kStep) << "as if they had not";
}

TEST(WindowTest, GrowsWhenStallsFreezeTheCommunication) {
  Window window;
  for (int i = 0; i < Window::kStretchedAllowed; ++i) window.Add(Stretched());
  EXPECT_DOUBLE_EQ(StepsOf(window), 2);
  window.Add(Stretched());
  EXPECT_DOUBLE_EQ(StepsOf(window), 32);
  EXPECT_EQ(window.Cap({}), 32) << "one window";
  for (int i = 0; i < 3 * Window::kRoundsPerLook; ++i) window.Add(Stretched());
  EXPECT_DOUBLE_EQ(StepsOf(window), 64);
  EXPECT_DOUBLE_EQ(StepsOf(window, {1, 16}), 16) << "not beyond its bounds";
}

TEST(WindowTest, AFewStretchedRoundsAreNothing) {
  Window window;
  for (int i = 0; i < 1000; ++i) window.Add(i % 10 == 0 ? Stretched() : Usual());
  EXPECT_DOUBLE_EQ(StepsOf(window), 2);
}

TEST(WindowTest, ComesBackWhenTheFreezesAreOver) {
  Window window;
  for (int i = 0; i < 200; ++i) window.Add(Stretched());
  for (int i = 0; i < 2 * Window::kRoundsPerLook; ++i) window.Add(Usual());
  EXPECT_EQ(window.frozen_steps(), 32);
  for (int i = 0; i < Window::kRoundsPerLook; ++i) window.Add(Usual());
  EXPECT_EQ(window.frozen_steps(), 0);
}

}  // namespace
}  // namespace paceline
