#include "controller/core/stragglers/slipstream/own_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(OwnHistoryTest, RanksTellOfAsManySteps) {
  OwnHistory history(2);
  EXPECT_EQ(history.Take().steps, 0);
  for (const double own_s : {1.0, 2.0, 3.0}) history.Add(0, own_s);
  EXPECT_EQ(history.Take().steps, 0);
  for (const double own_s : {4.0, 5.0}) history.Add(1, own_s);
  const OwnTimes times = history.Take();
  EXPECT_EQ(times.ranks, 2);
  EXPECT_EQ(times.steps, 2);
  EXPECT_THAT(times.seconds, ElementsAre(2, 4, 3, 5)) << "the latest, oldest first";
}

TEST(OwnHistoryTest, KeepsTheLatestHoweverFarRanksAreApart) {
  OwnHistory history(2);
  const int window = LadderWindow(2);
  for (int step = 0; step < 8 * window; ++step) {
    history.Add(0, 0.001 * step);
    if (step % 4 == 0) history.Add(1, 0.001 * step);
  }
  const OwnTimes times = history.Take();
  ASSERT_EQ(times.steps, window);
  EXPECT_FLOAT_EQ(times.seconds[0], 0.001F * static_cast<float>(7 * window));
  EXPECT_FLOAT_EQ(times.seconds[1], 0.001F * static_cast<float>(4 * window));
}

TEST(OwnHistoryTest, CountsStalls) {
  OwnHistory history(1);
  history.Add(0, 100);  // Nothing usual is known yet.
  for (int step = 1; step < OwnHistory::kFirstSteps; ++step) history.Add(0, 1);
  EXPECT_EQ(history.stalls(), 0);
  for (int step = 0; step < 90; ++step) history.Add(0, step % 30 == 29 ? 2 : 1.2);
  EXPECT_EQ(history.stalls(), 3);
}

TEST(OwnHistoryTest, NonsenseChangesNothing) {
  OwnHistory history(1);
  history.Add(-1, 1);
  history.Add(1, 1);
  history.Add(0, -1);
  history.Add(0, std::numeric_limits<double>::quiet_NaN());
  history.Add(0, 2 * kMaxOwnS);
  EXPECT_EQ(history.Take().steps, 0);
}

}  // namespace
}  // namespace paceline
