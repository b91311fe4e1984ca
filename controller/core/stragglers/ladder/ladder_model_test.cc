#include "controller/core/stragglers/ladder/ladder_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

double Total(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::vector<ModelLevel> Levels(int ranks, const std::vector<std::pair<int, int>>& ladder) {
  std::vector<ModelLevel> levels;
  for (const auto& [period, size] : ladder) levels.push_back({period, Equal(ranks, size)});
  return levels;
}

// The definition, carried out step by step.
double Obvious(const OwnTimes& times, const std::vector<int>& gradient_groups,
               const std::vector<ModelLevel>& levels) {
  std::vector<double> t(static_cast<size_t>(times.ranks), 0);
  const auto wait = [&](const std::vector<int>& groups) {
    auto begin = t.begin();
    for (const int size : groups) {
      std::fill(begin, begin + size, *std::max_element(begin, begin + size));
      begin += size;
    }
  };
  for (int step = 1; step <= times.steps; ++step) {
    for (int rank = 0; rank < times.ranks; ++rank) {
      t[static_cast<size_t>(rank)] +=
          times.seconds[static_cast<size_t>(step - 1) * t.size() + static_cast<size_t>(rank)];
    }
    wait(gradient_groups);
    const auto widest = std::find_if(levels.rbegin(), levels.rend(),
                                     [&](const auto& level) { return step % level.period == 0; });
    if (widest != levels.rend()) wait(widest->groups);
  }
  return *std::max_element(t.begin(), t.end());
}

TEST(LadderModelTest, WorkedExample) {
  // Ranks 0 and 1 are a group; every second step all four meet.
  const OwnTimes times{4,
                       4,
                       {1, 2, 1, 1,  //
                        2, 1, 1, 5,  //
                        9, 1, 1, 1,  //
                        1, 1, 1, 9}};
  LadderModel model(times, {});
  EXPECT_THAT(model.synchronous(), ElementsAre(2, 5, 9, 9));
  EXPECT_THAT(model.Cycles({{2, {4}}}), ElementsAre(6, 10));
  EXPECT_THAT(model.Cycles({{1, {2, 2}}, {2, {4}}}), ElementsAre(6, 10));
  EXPECT_THAT(model.Cycles({{2, {2, 2}}, {4, {4}}}), ElementsAre(16));
  EXPECT_THAT(LadderModel(times, {2, 2}).Cycles({{4, {4}}}), ElementsAre(16));
  EXPECT_THAT(model.Cycles({{1, {4}}}), ElementsAre(2, 5, 9, 9));
}

TEST(LadderModelTest, EqualsTheDefinitionOnRandomLadders) {
  for (uint64_t round = 1; round <= 200; ++round) {
    std::mt19937_64 random(round);
    const int ranks = 24;
    DrawnTimes wish = Stalling(ranks, 0.1);
    wish.steps = 48;
    wish.seed = random();
    const OwnTimes times = Draw(wish);
    std::vector<std::pair<int, int>> ladder;
    const int sizes[] = {2, 4, 12};
    int period = 1;
    for (const int size : sizes) {
      period *= 1 + static_cast<int>(random() % 2);
      if (random() % 2 == 0) ladder.emplace_back(period, size);
    }
    ladder.emplace_back(period * 2, ranks);
    const int gradient_sizes[] = {1, 2, 4};
    const std::vector<int> gradient_groups = Equal(ranks, gradient_sizes[random() % 3]);
    const std::vector<ModelLevel> levels = Levels(ranks, ladder);
    EXPECT_NEAR(Total(LadderModel(times, gradient_groups).Cycles(levels)),
                Obvious(times, gradient_groups, levels), 1e-6);
  }
}

TEST(LadderModelTest, GroupsNeedNotBeEqual) {
  const OwnTimes times{3,
                       2,
                       {1, 2, 4,  //
                        3, 1, 1}};
  LadderModel model(times, {});
  EXPECT_THAT(model.Cycles({{1, {2, 1}}, {2, {3}}}), ElementsAre(5));
  EXPECT_THAT(model.Cycles({{2, {3}}}), ElementsAre(5));
  EXPECT_THAT(model.Cycles({{1, {1, 2}}, {2, {3}}}), ElementsAre(5));
}

TEST(LadderModelTest, LevelInsideAGradientGroupDoesNothing) {
  const OwnTimes times = Draw(Stalling(8, 0.1));
  LadderModel model(times, Equal(8, 4));
  EXPECT_EQ(model.Cycles(Levels(8, {{2, 2}, {8, 8}})), model.Cycles(Levels(8, {{2, 4}, {8, 8}})));
}

TEST(LadderModelTest, LaddersThatItCannotPlayHaveNoCycles) {
  DrawnTimes wish = Stalling(8, 0.1);
  wish.steps = 16;
  LadderModel model(Draw(wish), {});
  EXPECT_THAT(model.Cycles({}), IsEmpty());
  EXPECT_THAT(model.Cycles(Levels(8, {{2, 4}})), IsEmpty()) << "not all ranks";
  EXPECT_THAT(model.Cycles(Levels(8, {{32, 8}})), IsEmpty()) << "longer than the times";
  EXPECT_THAT(model.Cycles(Levels(8, {{2, 4}, {5, 8}})), IsEmpty()) << "periods not nested";
  EXPECT_THAT(model.Cycles({{2, {3, 5}}, {4, {4, 4}}, {8, {8}}}), IsEmpty()) << "groups not nested";
  EXPECT_THAT(model.Cycles({{0, {8}}}), IsEmpty());
  EXPECT_EQ(model.Cycles(Levels(8, {{5, 8}})).size(), 3u) << "whole cycles only";
}

// Mean over 20 seeds of the speed-up over synchronous steps, with 1,000 steps each.
double Speedup(const DrawnTimes& wish, int per_host,
               const std::vector<std::pair<int, int>>& ladder) {
  double sum = 0;
  constexpr int kSeeds = 20;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    DrawnTimes seeded = wish;
    seeded.seed = seed;
    LadderModel model(Draw(seeded), Equal(wish.ranks, per_host));
    sum += Total(model.synchronous()) / Total(model.Cycles(Levels(wish.ranks, ladder)));
  }
  return sum / kSeeds;
}

// Figures of a simulation that follows the definition; stalls take 1 s, steps 55 ms.
TEST(LadderModelTest, TableOfPublishedLadders) {
  const struct {
    int ranks;
    double share;
    std::vector<std::pair<int, int>> ladder;
    double alone, hosts_of_four;
  } rows[] = {
      {64, 0.02, {{2, 8}, {4, 32}, {8, 64}}, 1.90, 1.80},
      {64, 0.02, {{4, 32}, {8, 64}}, 2.35, 1.97},
      {128, 0.01, {{2, 8}, {4, 32}, {8, 128}}, 2.18, 2.12},
      {128, 0.01, {{4, 32}, {8, 128}}, 2.49, 2.25},
      {256, 0.01, {{1, 4}, {2, 16}, {4, 64}, {8, 256}}, 2.09, 2.09},
      {256, 0.01, {{2, 8}, {4, 64}, {8, 256}}, 2.37, 2.28},
      {256, 0.01, {{4, 16}, {8, 256}}, 3.06, 2.71},
      {64, 0.02, {{2, 64}}, 1.47, 1.38},
      {64, 0.02, {{4, 64}}, 2.32, 1.90},
      {64, 0.02, {{8, 64}}, 3.23, 2.39},
      {256, 0.01, {{2, 256}}, 1.73, 1.63},
      {256, 0.01, {{4, 256}}, 2.87, 2.35},
      {256, 0.01, {{8, 256}}, 3.98, 3.08},
  };
  for (const auto& row : rows) {
    const DrawnTimes wish = Stalling(row.ranks, row.share);
    std::string name = absl::StrCat(row.ranks);
    for (const auto& [period, size] : row.ladder) absl::StrAppend(&name, " ", period, ":", size);
    EXPECT_NEAR(Speedup(wish, 1, row.ladder) / row.alone, 1, 0.03) << name;
    EXPECT_NEAR(Speedup(wish, 4, row.ladder) / row.hosts_of_four, 1, 0.03) << name;
  }
}

TEST(LadderModelTest, SpeedupByTheRateOfStalls) {
  const std::pair<double, double> rows[] = {{0.001, 1.07}, {0.005, 1.43}, {0.01, 1.69},
                                            {0.02, 1.90},  {0.05, 1.78},  {0.1, 1.48},
                                            {0.3, 1.03}};
  for (const auto& [share, speedup] : rows) {
    EXPECT_NEAR(Speedup(Stalling(64, share), 1, {{2, 8}, {4, 32}, {8, 64}}) / speedup, 1, 0.03)
        << share;
  }
}

TEST(LadderModelTest, SpeedupByTheSizeOfStalls) {
  const std::pair<double, double> rows[] = {{0.1, 1.03}, {0.5, 1.15}, {1, 1.25}, {2, 1.40}};
  for (const auto& [steps, speedup] : rows) {
    EXPECT_NEAR(Speedup(Stalling(64, 0.02, 0.055 * steps), 4, {{2, 8}, {4, 32}, {8, 64}}) / speedup,
                1, 0.03)
        << steps;
  }
}

TEST(LadderModelTest, PersistentStragglerGainsNothing) {
  for (const double slowdown : {1.1, 1.2, 1.5, 2.0}) {
    const DrawnTimes wish = Slowed(17, slowdown);
    for (const auto& ladder :
         std::vector<std::vector<std::pair<int, int>>>{{{2, 8}, {4, 32}, {8, 64}}, {{8, 64}}}) {
      EXPECT_NEAR(Speedup(wish, 1, ladder), 1, 1e-9);
    }
  }
}

}  // namespace
}  // namespace paceline
