#include "controller/core/stragglers/detector/comm_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace paceline {
namespace {

DetectorOptions WithoutWarmUp() {
  DetectorOptions options;
  options.warm_up_steps = 0;
  return options;
}

std::vector<std::vector<int>> Groups(int count, int size) {
  std::vector<std::vector<int>> groups(static_cast<size_t>(count));
  int rank = 0;
  for (auto& group : groups) {
    for (int i = 0; i < size; ++i) group.push_back(rank++);
  }
  return groups;
}

// Six groups of four ranks.
struct Job {
  // Transfers take 0.1 s of each second, in group 2 `slower` times as long. Rank 9, which is in
  // that group, comes `late_s` after the others, so that these wait for it.
  void Play(int steps, double slower, double late_s, double job_s = 1) {
    for (int i = 0; i < steps; ++i, ++step) {
      for (int group = 0; group < 6; ++group) {
        const double transfer = 0.1 * (group == 2 ? slower : 1) * std::exp(0.01 * normal(random));
        std::vector<double> durations;
        double latest = 0;
        for (int member = 0; member < 4; ++member) {
          const bool is_late = group == 2 && member == 1;
          durations.push_back(0.01 * std::abs(normal(random)) + (is_late ? late_s : 0));
          latest = std::max(latest, durations.back());
        }
        for (double& arrival : durations) arrival = transfer + latest - arrival;
        watch.Add(group, step, durations, job_s, verdicts);
      }
    }
  }

  CommWatch watch{WithoutWarmUp(), Groups(6, 4)};
  std::vector<CommVerdict> verdicts;
  int64_t step = 0;
  uint64_t seed = 9;
  std::mt19937_64 random{seed};
  std::normal_distribution<double> normal;
};

TEST(CommWatchTest, SlowTransferIsTheGroups) {
  Job job;
  job.Play(100, 1, 0);
  EXPECT_TRUE(job.verdicts.empty());
  job.Play(40, 1.3, 0);
  ASSERT_EQ(job.verdicts.size(), 1U);
  const CommVerdict& reported = job.verdicts[0];
  EXPECT_EQ(reported.group, 2);
  EXPECT_LT(reported.share, 0.6) << "nobody is always last";
  EXPECT_EQ(reported.verdict.kind, VerdictKind::kSuspect);
  EXPECT_EQ(reported.verdict.rank, -1);
  EXPECT_EQ(reported.verdict.since_step, 100);
  EXPECT_LE(reported.verdict.step, 106);
  EXPECT_EQ(reported.verdict.cause, StragglerCause::kCommunication);
  EXPECT_NEAR(reported.verdict.slowdown, 1.3, 0.04);
  EXPECT_NEAR(reported.verdict.lost_share, 0.03, 0.01) << "of the job's time";
  job.Play(40, 1, 0);
  ASSERT_EQ(job.verdicts.size(), 2U);
  EXPECT_EQ(job.verdicts[1].verdict.kind, VerdictKind::kTransient);
}

TEST(CommWatchTest, LateRankMakesOthersWaitButTheTransferNoLonger) {
  Job job;
  job.Play(300, 1, 0.5);
  EXPECT_TRUE(job.verdicts.empty());
}

TEST(CommWatchTest, NamesWhoIsLastInASlowGroup) {
  Job job;
  job.Play(100, 1.5, 0.5);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].waits_least, 9);
  EXPECT_GT(job.verdicts[0].share, 0.9);
}

TEST(CommWatchTest, HoursBetweenTwoCollectivesAreNoNonsense) {
  Job job;
  job.Play(100, 1.5, 0, 8 * 1800);
  EXPECT_EQ(job.watch.invalid(), 0);
  EXPECT_EQ(job.verdicts.size(), 1U);
}

TEST(CommWatchTest, FewGroupsCannotBeCompared) {
  EXPECT_EQ(CommWatch(WithoutWarmUp(), Groups(4, 2)).status(0), RankStatus::kHealthy);
  EXPECT_EQ(CommWatch(WithoutWarmUp(), Groups(3, 2)).status(0), RankStatus::kTooFewPeers);
}

TEST(CommWatchTest, IncompleteOrSenselessCollectivesAreCounted) {
  Job job;
  const std::array<double, 4> missing = {0.1, 0.1, 0, 0.1};
  const std::array<double, 4> negative = {0.1, 0.1, -0.1, 0.1};
  const std::array<double, 4> not_a_number = {0.1, NAN, 0.1, 0.1};
  const std::array<double, 4> hours = {1e5, 1e5, 1e5, 1e5};
  const std::array<double, 3> few = {0.1, 0.1, 0.1};
  job.watch.Add(0, 0, missing, 1, job.verdicts);
  job.watch.Add(0, 0, negative, 1, job.verdicts);
  job.watch.Add(0, 0, not_a_number, 1, job.verdicts);
  job.watch.Add(0, 0, hours, 1, job.verdicts);
  job.watch.Add(0, 0, few, 1, job.verdicts);
  job.watch.Add(6, 0, missing, 1, job.verdicts);
  job.watch.Add(-1, 0, missing, 1, job.verdicts);
  EXPECT_EQ(job.watch.invalid(), 7);
}

}  // namespace
}  // namespace paceline
