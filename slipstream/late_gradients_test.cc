#include "slipstream/late_gradients.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LateGradientsTest, InTimeIsUsedAndLateIsDropped) {
  LateGradients late;
  EXPECT_TRUE(late.Offer(5, 5, true));
  EXPECT_FALSE(late.Offer(4, 5, true));
  EXPECT_EQ(late.dropped(), 1);
}

TEST(LateGradientsTest, TheFourthInARowIsUsedHoweverLateItIs) {
  LateGradients late;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(late.Offer(i, i + 1, true));
  EXPECT_TRUE(late.Offer(3, 30, true));
  late.SetUsed();
  EXPECT_FALSE(late.Offer(30, 31, true)) << "counts anew";
  EXPECT_EQ(late.dropped(), 4);
}

TEST(LateGradientsTest, OneInTimeBetweenThemCountsAnew) {
  LateGradients late;
  for (int i = 0; i < 2; ++i) late.Offer(i, i + 1, true);
  EXPECT_TRUE(late.Offer(2, 2, true));
  late.SetUsed();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(late.Offer(i, i + 1, true));
}

TEST(LateGradientsTest, AnOldOneIsNeverUsedWhereAllAreAwaited) {
  LateGradients late;
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(late.Offer(i, i + 1, /*accepts_stale=*/false));
}

}  // namespace
}  // namespace paceline
