#include "controller/core/stragglers/ladder/ladder_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Names(const std::vector<Ladder>& ladders) {
  std::vector<std::string> names;
  for (const Ladder& ladder : ladders) names.push_back(DescribeLadder(ladder));
  return names;
}

Ladder Of(const std::vector<std::pair<int, int>>& levels, int last_period) {
  Ladder ladder;
  for (const auto& [period, size] : levels) ladder.push_back({period, LadderScope::kSize, size});
  ladder.push_back({last_period, LadderScope::kAll, 0});
  return ladder;
}

TEST(CandidateLaddersTest, AllOfASmallJob) {
  EXPECT_THAT(
      Names(CandidateLadders(Homes(4, 1, 4), {}, {})),
      UnorderedElementsAre("2:all", "4:all", "8:all", "2:2,4:all", "2:2,8:all", "4:2,8:all"));
}

TEST(CandidateLaddersTest, ThreeLevelsAndLimits) {
  const auto homes = Homes(8, 1, 8);
  EXPECT_THAT(Names(CandidateLadders(homes, {}, {})), Contains("2:2,4:4,8:all"));
  EXPECT_THAT(Names(CandidateLadders(homes, {}, {8, 1})),
              UnorderedElementsAre("2:all", "4:all", "8:all"));
  EXPECT_THAT(Names(CandidateLadders(homes, {}, {4, 3})),
              UnorderedElementsAre("2:all", "4:all", "2:2,4:all", "2:4,4:all"));
}

TEST(CandidateLaddersTest, GroupsFollowNodesAndRacks) {
  // 12 ranks, nodes of 3, racks of 6.
  const auto names = Names(CandidateLadders(Homes(12, 3, 6), {}, {8, 2}));
  EXPECT_THAT(names, Contains("2:3,4:all"));
  EXPECT_THAT(names, Contains("2:6,4:all"));
  EXPECT_THAT(names, Not(Contains("2:2,4:all"))) << "ranks 2 and 3 are on two nodes";
  EXPECT_THAT(names, Not(Contains("2:4,4:all")));
  EXPECT_THAT(names, Not(Contains("2:node,4:all"))) << "that is 2:3,4:all";
}

TEST(CandidateLaddersTest, UnequalNodesAndRacksAreScopes) {
  std::vector<RankHome> homes;
  for (int rank = 0; rank < 16; ++rank) {
    homes.push_back({rank < 4 ? "a" : rank < 6 ? "b" : rank < 8 ? "c" : "d", rank < 6 ? "x" : "y"});
  }
  const auto names = Names(CandidateLadders(homes, {}, {}));
  EXPECT_THAT(names, Contains("2:2,4:node,8:all"));
  EXPECT_THAT(names, Contains("2:node,4:rack,8:all"));
  EXPECT_THAT(names, Not(Contains("2:4,8:all"))) << "ranks 4 to 7 are in two racks";
}

TEST(CandidateLaddersTest, SizesComeBeforeScopes) {
  std::vector<RankHome> homes;
  for (int rank = 0; rank < 16; ++rank) {
    homes.push_back({rank < 4 ? "a" : rank < 6 ? "b" : rank < 8 ? "c" : "d", "x"});
  }
  const auto names = Names(CandidateLadders(homes, {}, {}));
  EXPECT_THAT(names, Contains("2:8,8:all"));
  EXPECT_THAT(names, Contains("2:node,8:all"));
  EXPECT_THAT(names, Not(Contains("2:node,4:8,8:all"))) << "a job file may not have it";
}

TEST(CandidateLaddersTest, LevelsAreMadeOfGradientGroups) {
  EXPECT_THAT(Names(CandidateLadders(Homes(12, 12, 12), Equal(12, 4), {8, 2})),
              UnorderedElementsAre("2:all", "4:all", "8:all"));
}

TEST(CandidateLaddersTest, LevelsAreWiderThanTheGradientGroups) {
  EXPECT_THAT(Names(CandidateLadders(Homes(8, 4, 8), Equal(8, 4), {8, 2})),
              UnorderedElementsAre("2:all", "4:all", "8:all"));
  EXPECT_THAT(CandidateLadders(Homes(8, 8, 8), {8}, {}), IsEmpty());
  EXPECT_THAT(CandidateLadders(Homes(1, 1, 1), {}, {}), IsEmpty());
}

TEST(CandidateLaddersTest, EachIsOneThatAJobFileMayHave) {
  const auto homes = Homes(720, 4, 48);
  std::set<std::string> names;
  for (const Ladder& ladder : CandidateLadders(homes, Equal(720, 4), {})) {
    EXPECT_TRUE(names.insert(DescribeLadder(ladder)).second);
    EXPECT_EQ(ladder.back().scope, LadderScope::kAll);
    for (size_t i = 1; i < ladder.size(); ++i) {
      EXPECT_EQ(ladder[i].period % ladder[i - 1].period, 0);
      EXPECT_GT(ladder[i].period, ladder[i - 1].period);
      if (ladder[i].scope != LadderScope::kSize) continue;
      EXPECT_EQ(ladder[i].size % ladder[i - 1].size, 0);
      EXPECT_GT(ladder[i].size, ladder[i - 1].size);
    }
  }
  EXPECT_EQ(names.size(), 41u);
}

TEST(CandidateLaddersTest, ManyDivisorsAreThinnedOut) {
  const auto ladders = CandidateLadders(Homes(720, 1, 720), {}, {8, 2});
  EXPECT_EQ(ladders.size(), 3u + 3 * 12);
  std::set<int> sizes;
  for (const Ladder& ladder : ladders) {
    if (ladder.size() == 2) sizes.insert(ladder.front().size);
  }
  EXPECT_EQ(sizes.size(), 12u);
  EXPECT_EQ(*sizes.begin(), 2);
  EXPECT_GE(*sizes.rbegin(), 180);
}

TEST(EquivalentPeriodTest, LaddersWithOneLevel) {
  EXPECT_EQ(EquivalentPeriod({}, Homes(8, 1, 8), {}), 1);
  EXPECT_DOUBLE_EQ(EquivalentPeriod(Of({}, 8), Homes(1024, 1, 8), {}), 1 + 7 * 1023.0 / 1024);
  EXPECT_DOUBLE_EQ(EquivalentPeriod(Of({}, 1), Homes(64, 1, 8), {}), 1);
}

TEST(EquivalentPeriodTest, NarrowLevelsAndGradientGroupsShortenIt) {
  const auto homes = Homes(64, 4, 32);
  EXPECT_DOUBLE_EQ(EquivalentPeriod(Of({{2, 8}, {4, 32}}, 8), homes, {}),
                   1 + 7.0 / 8 * 1 + 3.0 / 32 * 3 + 1.0 / 64 * 7);
  EXPECT_DOUBLE_EQ(EquivalentPeriod(Of({}, 8), homes, Equal(64, 4)), 1 + (1.0 / 4 - 1.0 / 64) * 7);
  EXPECT_DOUBLE_EQ(EquivalentPeriod(Of({{2, 2}}, 8), homes, Equal(64, 4)),
                   EquivalentPeriod(Of({}, 8), homes, Equal(64, 4)))
      << "a level inside a gradient group averages what is equal";
}

TEST(EquivalentPeriodTest, UnequalGroupsCountByTheirRanks) {
  const std::vector<RankHome> homes = {{"a", ""}, {"b", ""}, {"b", ""}, {"b", ""}};
  EXPECT_DOUBLE_EQ(
      EquivalentPeriod({{2, LadderScope::kNode, 0}, {4, LadderScope::kAll, 0}}, homes, {}),
      1 + (1 - 2.0 / 4) * 1 + (2.0 / 4 - 1.0 / 4) * 3);
}

// The mean square distance of 16 ranks' parameters from their mean, before each step adds noise of
// variance 1, under the ladder {2: 2, 4: 8, 8: 16}.
double SimulatedDrift(uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise;
  std::vector<double> parameters(16, 0);
  const auto average = [&](int size) {
    for (auto begin = parameters.begin(); begin != parameters.end(); begin += size) {
      std::fill(begin, begin + size, std::accumulate(begin, begin + size, 0.0) / size);
    }
  };
  double squares = 0;
  for (int step = 1; step <= steps; ++step) {
    const double mean = std::accumulate(parameters.begin(), parameters.end(), 0.0) / 16;
    for (const double p : parameters) squares += (p - mean) * (p - mean) / 16;
    for (double& p : parameters) p += noise(random);
    if (step % 2 == 0) average(step % 8 == 0 ? 16 : step % 4 == 0 ? 8 : 2);
  }
  return squares / steps;
}

TEST(EquivalentPeriodTest, IsTheDriftOfARandomWalk) {
  double drift = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) drift += SimulatedDrift(seed, 20000) / 4;
  EXPECT_NEAR(1 + 2 * drift, EquivalentPeriod(Of({{2, 2}, {4, 8}}, 8), Homes(16, 1, 16), {}), 0.03);
}

}  // namespace
}  // namespace paceline
