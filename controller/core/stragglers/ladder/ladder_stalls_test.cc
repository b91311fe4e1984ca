#include "controller/core/stragglers/ladder/ladder_stalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

TEST(LadderStallsTest, TakesWholeStepsInOrderHoweverTheyCame) {
  LadderStalls stalls(2);
  stalls.Add(1, 8, 0.4);
  stalls.Add(0, 7, 0.1);
  stalls.Add(0, 9, 0.5);  // Rank 1 does not report this one.
  stalls.Add(1, 7, 0.2);
  stalls.Add(0, 8, 0.3);
  const OwnTimes times = stalls.Take();
  EXPECT_EQ(times.ranks, 2);
  EXPECT_EQ(times.steps, 2);
  EXPECT_THAT(times.seconds, ElementsAre(FloatEq(0.1), FloatEq(0.2), FloatEq(0.3), FloatEq(0.4)));
  EXPECT_EQ(stalls.refused(), 0);
}

TEST(LadderStallsTest, LeavesOutMaskedSteps) {
  LadderStalls stalls(1);
  stalls.Mask(1);  // Before the step came,
  for (int step = 0; step < 4; ++step) stalls.Add(0, step, step);
  stalls.Mask(2);  // and after it.
  EXPECT_THAT(stalls.Take().seconds, ElementsAre(0, 3));
}

TEST(LadderStallsTest, RefusesNonsense) {
  LadderStalls stalls(2);
  stalls.Add(-1, 1, 0.1);
  stalls.Add(2, 1, 0.1);
  stalls.Add(0, -1, 0.1);
  stalls.Add(0, 1, -0.1);
  stalls.Add(0, 1, std::nan(""));
  stalls.Add(0, 1, HUGE_VAL);
  stalls.Add(0, 1, 3601);
  EXPECT_EQ(stalls.refused(), 7);
  stalls.Add(0, 1, 0.1);
  stalls.Add(0, 1, 0.7);  // A second time.
  stalls.Add(1, 1, 0.1);
  EXPECT_EQ(stalls.refused(), 8);
  EXPECT_THAT(stalls.Take().seconds, ElementsAre(FloatEq(0.1), FloatEq(0.1)));
}

TEST(LadderStallsTest, MissingRanksGetTheMedianIfTheyAreFew) {
  LadderStalls stalls(20);
  for (int rank = 0; rank < 19; ++rank) stalls.Add(rank, 0, rank < 9 ? 1 : rank == 9 ? 2 : 3);
  for (int rank = 0; rank < 18; ++rank) stalls.Add(rank, 1, 1);
  const OwnTimes times = stalls.Take();
  ASSERT_EQ(times.steps, 1);
  EXPECT_EQ(times.seconds[19], 2);
}

TEST(LadderStallsTest, KeepsTheLatestWindow) {
  LadderStalls stalls(1);
  for (int step = 0; step < 1500; ++step) stalls.Add(0, step, step);
  const OwnTimes times = stalls.Take();
  EXPECT_EQ(times.steps, 1024);
  EXPECT_EQ(times.seconds.front(), 476);
  EXPECT_EQ(times.seconds.back(), 1499);
  stalls.Add(0, 400, 1);
  EXPECT_EQ(stalls.refused(), 1);
  EXPECT_EQ(stalls.Take().seconds.front(), 476);
}

TEST(LadderStallsTest, MemoryIsBounded) {
  EXPECT_EQ(LadderStalls(64).window(), 1024);
  EXPECT_EQ(LadderStalls(1024).window(), 512);
  EXPECT_EQ(LadderStalls(10000).window(), 192);
}

TEST(LadderStallsTest, StepsFarAheadThatFewHaveToldKeepNoRealOnesAway) {
  LadderStalls stalls(2);
  for (int rank = 0; rank < 2; ++rank) stalls.Add(rank, 0, 1);
  for (int step = 0; step < 1024; ++step) stalls.Add(0, (int64_t{1} << 40) + step, 1);
  for (int step = 1; step < 200; ++step) {
    for (int rank = 0; rank < 2; ++rank) stalls.Add(rank, step, 1);
  }
  EXPECT_EQ(stalls.Take().steps, 199);  // Step 0 was overwritten.
}

TEST(LadderStallsTest, GoesOnAfterAGapThatIsLongerThanTheWindow) {
  LadderStalls stalls(1);
  for (int step = 0; step < 10; ++step) stalls.Add(0, step, 1);
  for (int step = 50000; step < 50200; ++step) stalls.Add(0, step, 2);
  EXPECT_GE(stalls.Take().steps, 200);
  EXPECT_EQ(stalls.Take().seconds.back(), 2);
}

TEST(StallSummaryTest, TellsStallsFromASlowRank) {
  const StallSummary random = SummarizeStalls(Draw(Stalling(32, 0.02)));
  EXPECT_NEAR(random.typical_s, 0.055, 1e-6);
  EXPECT_NEAR(random.stall_share, 0.02, 0.002);
  EXPECT_NEAR(random.mean_stall_s, 1, 1e-4);
  EXPECT_LT(random.floor_s, 0.1);
  EXPECT_NEAR(random.synchronous_s, 0.055 + 1 - std::pow(0.98, 32), 0.05);

  const StallSummary slow = SummarizeStalls(Draw(Slowed(5, 2)));
  EXPECT_EQ(slow.slowest_rank, 5);
  EXPECT_EQ(slow.stall_share, 0);
  EXPECT_NEAR(slow.floor_s, 0.11, 1e-6);
  EXPECT_NEAR(slow.synchronous_s, slow.floor_s, 1e-9);
}

TEST(StallSummaryTest, TypicalTimeIsThatOfAllRanks) {
  // Every fourth rank is slow, and only some of the values are sampled.
  OwnTimes times{64, 1024, {}};
  for (int i = 0; i < 64 * 1024; ++i) times.seconds.push_back(i % 4 == 0 ? 3 : 1);
  EXPECT_EQ(SummarizeStalls(times).typical_s, 1);
}

}  // namespace
}  // namespace paceline
