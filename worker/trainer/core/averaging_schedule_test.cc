#include "worker/trainer/core/averaging_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Kind = AveragingSchedule::Kind;

// Period and group size, as in PyTorch's ordered map.
using Ladder = std::vector<std::pair<int64_t, int>>;

AveragingSchedule Schedule(const Ladder& ladder, int64_t warmup, Kind kind = Kind::kHierarchical) {
  AveragingSchedule schedule;
  schedule.kind = kind;
  for (const auto& [period, size] : ladder) schedule.periods.push_back(period);
  schedule.warmup_steps = warmup;
  return schedule;
}

// Step and group size of each mean in steps 0 to last.
std::vector<std::pair<int, int>> Means(const Ladder& ladder, int64_t warmup, int last,
                                       Kind kind = Kind::kHierarchical) {
  const AveragingSchedule schedule = Schedule(ladder, warmup, kind);
  std::vector<std::pair<int, int>> means;
  for (int step = 0; step <= last; ++step) {
    const std::optional<int> level = schedule.LevelAt(step);
    if (level) means.emplace_back(step, ladder[static_cast<size_t>(*level)].second);
  }
  return means;
}

// The expected values were observed on PyTorch 2.11 with 8 ranks.

TEST(AveragingScheduleTest, ThreeLevelsAfterWarmup) {
  EXPECT_THAT(Means({{2, 2}, {4, 4}, {8, 8}}, 10, 25),
              ElementsAre(Pair(10, 2), Pair(12, 4), Pair(14, 2), Pair(16, 8), Pair(18, 2),
                          Pair(20, 4), Pair(22, 2), Pair(24, 8)));
}

TEST(AveragingScheduleTest, StepZeroIsDivisibleByEveryPeriod) {
  EXPECT_THAT(Means({{2, 2}, {4, 8}}, 0, 8),
              ElementsAre(Pair(0, 8), Pair(2, 2), Pair(4, 8), Pair(6, 2), Pair(8, 8)));
}

TEST(AveragingScheduleTest, PeriodOneActsWhereNoWiderLevelDoes) {
  EXPECT_THAT(Means({{1, 2}, {4, 8}}, 0, 5),
              ElementsAre(Pair(0, 8), Pair(1, 2), Pair(2, 2), Pair(3, 2), Pair(4, 8), Pair(5, 2)));
}

TEST(AveragingScheduleTest, PeriodsNeedNotBeMultiples) {
  EXPECT_THAT(Means({{2, 4}, {3, 8}}, 0, 9),
              ElementsAre(Pair(0, 8), Pair(2, 4), Pair(3, 8), Pair(4, 4), Pair(6, 8), Pair(8, 4),
                          Pair(9, 8)));
}

TEST(AveragingScheduleTest, LastLevelWinsWhateverItsPeriod) {
  EXPECT_THAT(Means({{8, 4}, {2, 8}}, 0, 8),
              ElementsAre(Pair(0, 8), Pair(2, 8), Pair(4, 8), Pair(6, 8), Pair(8, 8)));
}

TEST(AveragingScheduleTest, HierarchicalCountsAbsoluteSteps) {
  EXPECT_THAT(Means({{4, 8}}, 13, 21), ElementsAre(Pair(16, 8), Pair(20, 8)));
}

TEST(AveragingScheduleTest, PeriodicCountsFromTheWarmup) {
  EXPECT_THAT(Means({{4, 8}}, 13, 21, Kind::kPeriodic),
              ElementsAre(Pair(13, 8), Pair(17, 8), Pair(21, 8)));
}

TEST(AveragingScheduleTest, NoLevelsNeverAct) {
  EXPECT_TRUE(Means({}, 0, 20).empty());
  EXPECT_FALSE(Schedule({}, 0).IsBoundary(0));
}

TEST(AveragingScheduleTest, BoundariesAreThereInTheWarmupToo) {
  const AveragingSchedule hierarchical = Schedule({{2, 2}, {4, 8}}, 7);
  const AveragingSchedule periodic = Schedule({{4, 8}}, 7, Kind::kPeriodic);
  std::vector<int> at, periodic_at;
  for (int step = 0; step < 12; ++step) {
    if (hierarchical.IsBoundary(step)) at.push_back(step);
    if (periodic.IsBoundary(step)) periodic_at.push_back(step);
  }
  EXPECT_THAT(at, ElementsAre(0, 4, 8));
  EXPECT_THAT(periodic_at, ElementsAre(3, 7, 11));
}

// Values of 8 ranks after steps 0 to last. At each step rank r adds r + 1 to a value that starts at
// 0; then groups of the schedule's size take their mean.
std::vector<std::vector<double>> Simulate(const Ladder& ladder, int64_t warmup, int last) {
  constexpr size_t kRanks = 8;
  const AveragingSchedule schedule = Schedule(ladder, warmup);
  std::vector<double> values(kRanks, 0);
  std::vector<std::vector<double>> history;
  for (int step = 0; step <= last; ++step) {
    for (size_t rank = 0; rank < kRanks; ++rank) values[rank] += static_cast<double>(rank + 1);
    if (const std::optional<int> level = schedule.LevelAt(step)) {
      const auto size = static_cast<size_t>(ladder[static_cast<size_t>(*level)].second);
      for (size_t first = 0; first < kRanks; first += size) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end = begin + static_cast<std::ptrdiff_t>(size);
        std::fill(begin, end, std::accumulate(begin, end, 0.0) / static_cast<double>(size));
      }
    }
    history.push_back(values);
  }
  return history;
}

TEST(AveragingScheduleTest, ValuesAreThoseOfPyTorch) {
  const auto plain = Simulate({{2, 2}, {4, 4}, {8, 8}}, 0, 9);
  EXPECT_THAT(plain[0], testing::Each(4.5));
  EXPECT_THAT(plain[1], ElementsAre(5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5));
  EXPECT_THAT(plain[2], ElementsAre(7.5, 7.5, 11.5, 11.5, 15.5, 15.5, 19.5, 19.5));
  EXPECT_THAT(plain[4], ElementsAre(14.5, 14.5, 14.5, 14.5, 30.5, 30.5, 30.5, 30.5));
  EXPECT_THAT(plain[7], ElementsAre(18.5, 19.5, 24.5, 25.5, 46.5, 47.5, 52.5, 53.5));
  EXPECT_THAT(plain[8], testing::Each(40.5));
  EXPECT_THAT(plain[9], ElementsAre(41.5, 42.5, 43.5, 44.5, 45.5, 46.5, 47.5, 48.5));

  const auto warm = Simulate({{2, 2}, {4, 4}, {8, 8}}, 3, 9);
  EXPECT_THAT(warm[2], ElementsAre(3, 6, 9, 12, 15, 18, 21, 24));
  EXPECT_THAT(warm[3], ElementsAre(4, 8, 12, 16, 20, 24, 28, 32));
  EXPECT_THAT(warm[4], ElementsAre(12.5, 12.5, 12.5, 12.5, 32.5, 32.5, 32.5, 32.5));
  EXPECT_THAT(warm[6], ElementsAre(15.5, 15.5, 19.5, 19.5, 43.5, 43.5, 47.5, 47.5));
  EXPECT_THAT(warm[8], testing::Each(40.5));
  EXPECT_EQ(warm[9], plain[9]);
}

TEST(AveragingScheduleTest, EveryLevelPreservesTheMean) {
  for (const Ladder& ladder :
       {Ladder{{2, 2}, {4, 4}, {8, 8}}, Ladder{{1, 2}, {4, 8}}, Ladder{{3, 4}, {6, 8}}}) {
    for (const int64_t warmup : {0, 5}) {
      const auto history = Simulate(ladder, warmup, 40);
      for (size_t step = 0; step < history.size(); ++step) {
        const double sum = std::accumulate(history[step].begin(), history[step].end(), 0.0);
        EXPECT_DOUBLE_EQ(sum / 8, 4.5 * static_cast<double>(step + 1));
      }
    }
  }
}

}  // namespace
}  // namespace paceline
