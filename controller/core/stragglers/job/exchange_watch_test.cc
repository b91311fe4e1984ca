#include "controller/core/stragglers/job/exchange_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace paceline {
namespace {

using ::testing::IsEmpty;

// Ranks per node, by rack: {{4, 4}, {8}} are two racks of 8 ranks.
std::vector<RankHome> Homes(const std::vector<std::vector<int>>& racks) {
  std::vector<RankHome> homes;
  int node = 0;
  for (size_t rack = 0; rack < racks.size(); ++rack) {
    for (const int ranks : racks[rack]) {
      homes.insert(homes.end(), static_cast<size_t>(ranks),
                   {std::to_string(node), std::to_string(rack)});
      ++node;
    }
  }
  return homes;
}

// Sixteen ranks on nodes of four, which average within their node every second step, and with all
// every eighth.
ExchangeLevels FourNodes() {
  ExchangeLevels levels;
  levels.homes = Homes({{4, 4, 4, 4}});
  levels.ladder = {{2, LadderScope::kNode, 0}, {8, LadderScope::kAll, 0}};
  return levels;
}

DetectorOptions WithoutWarmUp() {
  DetectorOptions options;
  options.warm_up_steps = 0;
  return options;
}

class Job {
 public:
  explicit Job(ExchangeLevels levels)
      : levels_(std::move(levels)), watch_(WithoutWarmUp(), levels_) {}

  // Plays steps of a second. A transfer takes 0.1 s, but `slower` times as long for parameters in
  // the group that begins with `slow_average`, and for gradients, in the warm-up too, in the one
  // that begins with `slow_gradients`. `late_rank` comes half a second after the others.
  void Train(int steps) {
    for (int64_t end = step_ + steps; step_ < end; ++step_) {
      StepRow row;
      row.step = step_;
      row.total_s = 1;
      row.exchanges.resize(levels_.homes.size());
      Exchange(levels_.gradient_groups, slow_gradients, row, /*averages=*/false);
      for (auto level = levels_.ladder.rbegin(); level != levels_.ladder.rend(); ++level) {
        if (step_ < levels_.warmup_steps || step_ % level->period != 0) continue;
        Exchange(LadderGroups(level->scope, level->size, levels_.homes), slow_average, row,
                 /*averages=*/true);
        break;
      }
      watch_.Add(row, verdicts);
    }
  }

  int slow_average = -1;
  int slow_gradients = -1;
  int late_rank = -1;
  std::vector<ExchangeVerdict> verdicts;

 private:
  void Exchange(const std::vector<int>& sizes, int slow, StepRow& row, bool averages) {
    int first = 0;
    for (const int size : sizes) {
      const double transfer_s = 0.1 * (first == slow ? 1.3 : 1) * std::exp(0.01 * normal_(random_));
      const bool is_late = late_rank >= first && late_rank < first + size;
      for (int rank = first; rank < first + size; ++rank) {
        const double waits_s =
            rank == late_rank ? 0 : (is_late ? 0.5 : 0) + 0.001 * std::abs(normal_(random_));
        RankExchange& exchange = row.exchanges[static_cast<size_t>(rank)];
        (averages ? exchange.averaging_s : exchange.gradients_s) =
            static_cast<float>(transfer_s + waits_s);
        if (averages) exchange.averaging_ranks = size;
      }
      first += size;
    }
  }

  const ExchangeLevels levels_;
  ExchangeWatch watch_;
  int64_t step_ = 0;
  uint64_t seed_ = 9;
  std::mt19937_64 random_{seed_};
  std::normal_distribution<double> normal_;
};

TEST(ExchangeWatchTest, SlowGroupOfALevelIsNamed) {
  Job job(FourNodes());
  job.late_rank = 9;
  job.Train(200);
  EXPECT_THAT(job.verdicts, IsEmpty());
  job.slow_average = 8;
  job.Train(100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  const ExchangeVerdict& reported = job.verdicts[0];
  EXPECT_EQ(reported.group.level, 1);
  EXPECT_EQ(reported.group.first_rank, 8);
  EXPECT_EQ(reported.group.ranks, 4);
  EXPECT_EQ(reported.group.waits_least, 9);
  EXPECT_GT(reported.group.waits_least_share, 0.9);
  EXPECT_EQ(reported.verdict.kind, VerdictKind::kSuspect);
  EXPECT_EQ(reported.verdict.cause, StragglerCause::kCommunication);
  EXPECT_EQ(reported.verdict.rank, -1);
  EXPECT_EQ(reported.verdict.node, -1);
  EXPECT_NEAR(reported.verdict.slowdown, 1.3, 0.05);
  EXPECT_GE(reported.verdict.since_step, 200);
  EXPECT_NEAR(reported.verdict.lost_share, 0.03 * 3 / 8, 0.006) << "three of eight steps";
}

TEST(ExchangeWatchTest, SlowGroupPersistsAndRecovers) {
  Job job(FourNodes());
  job.Train(200);
  job.slow_average = 8;
  job.Train(600);
  ASSERT_EQ(job.verdicts.size(), 2U);
  EXPECT_EQ(job.verdicts[1].verdict.kind, VerdictKind::kPersistent);
  EXPECT_EQ(job.verdicts[1].group.first_rank, 8);
  job.slow_average = -1;
  job.Train(600);
  ASSERT_EQ(job.verdicts.size(), 3U);
  EXPECT_EQ(job.verdicts[2].verdict.kind, VerdictKind::kRecovered);
}

TEST(ExchangeWatchTest, LateRankMakesNoTransferSlow) {
  Job job(FourNodes());
  job.late_rank = 9;
  job.Train(2000);
  EXPECT_THAT(job.verdicts, IsEmpty());
}

TEST(ExchangeWatchTest, GradientsAreWatchedWithinTheirGroups) {
  ExchangeLevels levels = FourNodes();
  levels.gradient_groups = {4, 4, 4, 4};
  levels.ladder = {{8, LadderScope::kAll, 0}};
  Job job(levels);
  job.Train(200);
  job.slow_gradients = 12;
  job.Train(40);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].group.level, 0);
  EXPECT_EQ(job.verdicts[0].group.first_rank, 12);
  EXPECT_EQ(job.verdicts[0].group.ranks, 4);
}

TEST(ExchangeWatchTest, GradientsOfAllRanksAreNotThoseOfAGroup) {
  ExchangeLevels levels = FourNodes();
  levels.gradient_groups = {4, 4, 4, 4};
  levels.warmup_steps = 1000;
  Job job(levels);
  job.slow_gradients = 12;
  job.Train(1000);
  EXPECT_THAT(job.verdicts, IsEmpty());
  levels.ladder.clear();
  levels.warmup_steps = 0;
  Job synchronous(levels);
  synchronous.slow_gradients = 12;
  synchronous.Train(400);
  EXPECT_THAT(synchronous.verdicts, IsEmpty());
}

TEST(ExchangeWatchTest, GroupsOfOtherSizesAreNotCompared) {
  ExchangeLevels levels;
  levels.homes = Homes({{2, 2, 2, 2, 4, 4, 4}});
  levels.ladder = {{2, LadderScope::kNode, 0}, {8, LadderScope::kAll, 0}};
  Job job(levels);
  job.slow_average = 8;  // One of three alike.
  job.Train(400);
  EXPECT_THAT(job.verdicts, IsEmpty());
  job.slow_average = 2;  // One of four.
  job.Train(100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].group.first_rank, 2);
}

TEST(ExchangeWatchTest, GroupThatTwoLevelsHaveIsWatchedOnce) {
  ExchangeLevels levels;
  levels.homes = Homes({{4}, {4}, {4}, {4}, {4, 4}});
  levels.ladder = {
      {2, LadderScope::kNode, 0}, {4, LadderScope::kRack, 0}, {8, LadderScope::kAll, 0}};
  Job job(levels);
  job.Train(400);
  job.slow_average = 4;
  job.Train(100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].group.level, 1);
}

}  // namespace
}  // namespace paceline
