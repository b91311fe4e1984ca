#include "controller/core/stragglers/detector/peer_residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> Compute(const std::vector<DetectorRank>& ranks,
                            const std::vector<double>& values, std::vector<bool> slow = {}) {
  slow.resize(ranks.size());
  PeerResiduals peers(ranks, 3);
  std::vector<double> residuals(ranks.size());
  peers.Compute(values, slow, absl::MakeSpan(residuals));
  return residuals;
}

TEST(PeerResidualsTest, OwnNodeIsNoMeasure) {
  const std::vector<DetectorRank> ranks = {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const auto residuals = Compute(ranks, {9, 9, 9, 9, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(residuals[static_cast<size_t>(rank)], 7);
  EXPECT_EQ(residuals[4], 1 - 9) << "the median of 9, 9, 9, 9, 2 and 3";
}

TEST(PeerResidualsTest, GroupsAreNotCompared) {
  const std::vector<DetectorRank> ranks = {{0, 7}, {1, 3}, {2, 7}, {3, 3},
                                           {4, 7}, {5, 3}, {6, 7}, {7, 3}};
  PeerResiduals peers(ranks, 3);
  EXPECT_EQ(peers.groups(), (std::vector<int>{3, 7}));
  const auto residuals = Compute(ranks, {1, 50, 2, 60, 3, 70, 4, 80});
  EXPECT_EQ(residuals[0], 1 - 3);
  EXPECT_EQ(residuals[7], 80 - 60);
}

TEST(PeerResidualsTest, SlowRanksAreNoMeasureWhileEnoughOthersRemain) {
  std::vector<DetectorRank> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back({rank, 0});
  const std::vector<double> values = {1, 2, 3, 10, 10};
  EXPECT_EQ(Compute(ranks, values)[0], 1 - 6.5);
  EXPECT_EQ(Compute(ranks, values, {false, false, false, true})[0], 1 - 3);
  const auto both = Compute(ranks, values, {false, false, false, true, true});
  EXPECT_EQ(both[3], 10 - 2);
  EXPECT_EQ(both[0], 1 - 3) << "only two others that are not slow: the median of 2, 3 and 10";
}

TEST(PeerResidualsTest, TellsWhoIsComparedWithSlowRanks) {
  const std::vector<DetectorRank> ranks = {{0, 0}, {0, 0}, {0, 0}, {0, 0},
                                           {1, 0}, {1, 0}, {1, 0}, {1, 0}};
  PeerResiduals peers(ranks, 3);
  std::vector<double> residuals(ranks.size());
  std::vector<bool> slow(ranks.size());
  slow[0] = true;
  peers.Compute({9, 1, 2, 3, 1, 2, 3, 4}, slow, absl::MakeSpan(residuals));
  EXPECT_FALSE(peers.among_slow(4)) << "three others remain";
  slow[1] = true;
  peers.Compute({9, 8, 2, 3, 1, 2, 3, 4}, slow, absl::MakeSpan(residuals));
  EXPECT_TRUE(peers.among_slow(4));
  EXPECT_FALSE(peers.among_slow(0));
  EXPECT_EQ(residuals[0], 9 - 2.5);
  EXPECT_EQ(residuals[4], 1 - 3) << "the median of 2, 3 and 8";
}

TEST(PeerResidualsTest, TooFewPeers) {
  const std::vector<DetectorRank> ranks = {{0, 0}, {0, 0}, {1, 0}, {1, 0}, {1, 0}};
  PeerResiduals peers(ranks, 3);
  EXPECT_TRUE(peers.has_peers(0));
  EXPECT_FALSE(peers.has_peers(2));
  const auto residuals = Compute(ranks, {5, 6, 1, 2, 3});
  EXPECT_EQ(residuals[0], 3);
  EXPECT_TRUE(std::isnan(residuals[2]));
  EXPECT_TRUE(std::isnan(Compute(ranks, {5, 6, 1, kNone, 3})[0])) << "one has not reported";
}

TEST(PeerResidualsTest, EqualsTheSlowObviousWay) {
  for (uint64_t round = 0; round < 300; ++round) {
    std::mt19937_64 random(round);
    const int count = 4 + static_cast<int>(random() % 20);
    std::vector<DetectorRank> ranks;
    std::vector<double> values;
    std::vector<bool> slow;
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back({static_cast<int>(random() % 6), static_cast<int>(random() % 2)});
      values.push_back(random() % 10 == 0 ? kNone : static_cast<double>(random() % 50));
      slow.push_back(random() % 8 == 0);
    }
    const auto residuals = Compute(ranks, values, slow);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      double expected = kNone;
      std::vector<double> peers;
      std::vector<double> slow_peers;
      for (size_t other = 0; other < ranks.size(); ++other) {
        if (ranks[other].peer_group == ranks[rank].peer_group &&
            ranks[other].node != ranks[rank].node && !std::isnan(values[other])) {
          (slow[other] ? slow_peers : peers).push_back(values[other]);
        }
      }
      std::sort(slow_peers.begin(), slow_peers.end());
      for (size_t i = 0; i < slow_peers.size() && peers.size() < 3; ++i) {
        peers.push_back(slow_peers[i]);
      }
      if (peers.size() >= 3) {
        std::sort(peers.begin(), peers.end());
        const size_t half = peers.size() / 2;
        expected = values[rank] -
                   (peers.size() % 2 == 1 ? peers[half] : (peers[half] + peers[half - 1]) / 2);
      }
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(residuals[rank]) : residuals[rank] == expected)
          << "round " << round << " rank " << rank;
    }
  }
}

}  // namespace
}  // namespace paceline
