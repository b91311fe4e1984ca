#include "controller/core/stragglers/detector/node_history.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

// Two ranks each on nodes 0 and 1.
std::vector<DetectorRank> Ranks() { return {{0, 0}, {0, 0}, {1, 0}, {1, 0}}; }

void Slow(NodeHistory& history, int rank, int64_t begin, int64_t end) {
  history.Begin(rank, begin);
  history.End(rank, end);
}

TEST(NodeHistoryTest, CountsEpisodesOfAPlaceWithinTheWindow) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  Slow(history, 1, 100, 130);
  Slow(history, 1, 500, 510);
  Slow(history, 0, 500, 510);
  EXPECT_EQ(history.episodes(1, 600), 2);
  EXPECT_EQ(history.episodes(1, 1200), 1);
  EXPECT_EQ(history.episodes(0, 600), 1);
  EXPECT_EQ(history.episodes(3, 600), 0);
}

TEST(NodeHistoryTest, ThreeEpisodesCloseTogetherAreRecurrence) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  Slow(history, 2, 0, 50);
  Slow(history, 2, 60, 110);
  EXPECT_FALSE(history.IsRecurrent(2, 110));
  history.Begin(2, 120);
  EXPECT_TRUE(history.IsRecurrent(2, 120));
  EXPECT_FALSE(history.IsRecurrent(3, 120));
}

TEST(NodeHistoryTest, ThreeFarApartMayBeChanceAndFiveAreNot) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  for (int64_t begin = 0; begin < 800; begin += 200) {
    Slow(history, 2, begin, begin + 10);
    EXPECT_FALSE(history.IsRecurrent(2, begin + 10));
  }
  history.Begin(2, 800);
  EXPECT_TRUE(history.IsRecurrent(2, 800));
}

TEST(NodeHistoryTest, PlacesOutliveTheirRanks) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  Slow(history, 3, 10, 60);
  history.Begin(3, 70);
  history.Place({{1, 0}, {2, 0}, {1, 0}}, 120);  // Now rank 2 is the second one of node 1.
  EXPECT_EQ(history.episodes(2, 160), 2);
  EXPECT_EQ(history.episodes(0, 160), 0);
  EXPECT_EQ(history.episodes(1, 160), 0);
  history.Begin(2, 160);
  EXPECT_TRUE(history.IsRecurrent(2, 160));
}

TEST(NodeHistoryTest, WhatGoesOnAfterARestartIsOneEpisode) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  history.Begin(2, 10);
  for (const int64_t restart : {40, 70, 100}) {
    history.Place(Ranks(), restart);
    history.Begin(2, restart + 5);
    EXPECT_EQ(history.episodes(2, restart + 5), 1);
    EXPECT_FALSE(history.IsRecurrent(2, restart + 5));
  }
  history.Place(Ranks(), 125);
  history.Begin(2, 130);
  EXPECT_TRUE(history.IsRecurrent(2, 130)) << "slow for 120 rows";
}

TEST(NodeHistoryTest, EpisodesOfManyAreNoRecurrence) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  for (int64_t begin = 0; begin < 600; begin += 100) {
    history.Begin(2, begin);
    EXPECT_FALSE(history.IsRecurrent(2, begin));
    history.SetShared(2, true);
    history.End(2, begin + 50);
  }
  EXPECT_EQ(history.episodes(2, 600), 0);
  Slow(history, 2, 600, 650);
  EXPECT_EQ(history.episodes(2, 700), 1) << "one of its own";
}

TEST(NodeHistoryTest, ManyEpisodesDoNotOverflow) {
  NodeHistory history(1000, 3, 120);
  history.Place(Ranks(), 0);
  for (int64_t begin = 0; begin < 900; begin += 30) Slow(history, 0, begin, begin + 10);
  EXPECT_EQ(history.episodes(0, 900), 16);
  EXPECT_TRUE(history.IsRecurrent(0, 900));
}

}  // namespace
}  // namespace paceline
