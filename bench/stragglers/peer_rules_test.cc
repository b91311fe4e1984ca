#include "bench/stragglers/peer_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace paceline::detect {
namespace {

constexpr int kRanks = 16;  // Two stages of eight.
constexpr int kSteps = 200;
constexpr int kOnset = 90;

// Alarms by rule, in a job without noise in which rank 3 is slower by `factor` from kOnset on.
std::map<std::string, std::vector<int>> Alarms(double factor, double last_stage, int lost = -1) {
  std::vector<DetectorRank> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back({rank, rank / 8});
  std::map<std::string, std::vector<int>> alarms;
  for (auto& [name, rule] : MakePeerRules(ranks)) {
    for (int step = 0; step < kSteps; ++step) {
      std::vector<double> compute(kRanks, 1 + 0.001 * (step % 3));
      for (int rank = 8; rank < kRanks; ++rank) compute[static_cast<size_t>(rank)] *= last_stage;
      if (step >= kOnset) compute[3] *= factor;
      if (lost >= 0) compute[static_cast<size_t>(lost)] = std::numeric_limits<double>::quiet_NaN();
      rule->Step(compute, alarms[name]);
    }
  }
  return alarms;
}

TEST(PeerRulesTest, EachHasItsThreshold) {
  const std::vector<int> found = {3};
  for (const double factor : {1.05, 1.2, 1.5, 2.2}) {
    auto alarms = Alarms(factor, 1);
    EXPECT_EQ(alarms["NVRx relative"] == found, factor > 1.34) << factor;
    EXPECT_EQ(alarms["NVRx relative in stage"] == found, factor > 1.34) << factor;
    EXPECT_EQ(alarms["NVRx individual"] == found, factor > 1.34) << factor;
    EXPECT_EQ(alarms["DLRover 2x median"] == found, factor > 2) << factor;
    EXPECT_EQ(alarms["sliding window 1.1x"] == found, factor > 1.1) << factor;
    EXPECT_EQ(alarms["BOCD"], found) << factor;
    EXPECT_EQ(alarms["BOCD + 10 %"] == found, factor > 1.11) << factor;
  }
}

TEST(PeerRulesTest, AcrossStagesTheLastIsSlowForEver) {
  auto alarms = Alarms(1, 1.6);
  EXPECT_EQ(alarms["NVRx relative"].size(), 8);
  EXPECT_TRUE(alarms["NVRx relative in stage"].empty());
  EXPECT_TRUE(alarms["sliding window 1.1x"].empty());
}

TEST(PeerRulesTest, ARankWithoutReportsIsNotSlow) {
  for (const auto& [name, ranks] : Alarms(1, 1, 5)) EXPECT_TRUE(ranks.empty()) << name;
}

}  // namespace
}  // namespace paceline::detect
