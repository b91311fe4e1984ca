#include "controller/core/stragglers/ladder/ladder_stalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(LadderStallsTest, TakesWholeStepsInOrder) {
  LadderStalls stalls(2);
  stalls.Add({0.1F, 0.2F});
  stalls.Add({0.3F, 0.4F});
  const OwnTimes times = stalls.Take();
  EXPECT_EQ(times.ranks, 2);
  EXPECT_EQ(times.steps, 2);
  EXPECT_THAT(times.seconds, ElementsAre(0.1F, 0.2F, 0.3F, 0.4F));
}

TEST(LadderStallsTest, KeepsTheLatestWindow) {
  LadderStalls stalls(2);
  for (int step = 0; step < 1500; ++step) {
    stalls.Add({static_cast<float>(step), static_cast<float>(-step)});
  }
  const OwnTimes times = stalls.Take();
  EXPECT_EQ(times.steps, 1024);
  EXPECT_EQ(times.seconds.size(), 2U * 1024);
  EXPECT_EQ(times.seconds.front(), 476);
  EXPECT_EQ(times.seconds.back(), -1499);
}

TEST(LadderStallsTest, MemoryIsBounded) {
  EXPECT_EQ(LadderWindow(64), 1024);
  EXPECT_EQ(LadderWindow(1024), 512);
  EXPECT_EQ(LadderWindow(10000), 192);
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
