#include "worker/trainer/comm/step_word.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

// What each rank of a job gets, by rank, whose squares are those of its position.
std::vector<double> NormsOf(int replicas, const std::vector<double>& squares) {
  const auto shards = static_cast<int>(squares.size());
  TrainerConfig job = Ranks(replicas * shards);
  job.member.shards = shards;
  absl::Mutex mu;
  std::vector<double> norms(static_cast<size_t>(replicas * shards), -1);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    const std::shared_ptr<Group> all = groups.MakeOfAll("word", 1, Groups::Traffic::kOnHost);
    StepWord word(*all, config.member);
    const double norm = word.Give(squares[static_cast<size_t>(config.rank() % shards)]);
    const absl::MutexLock lock(&mu);
    norms[static_cast<size_t>(config.rank())] = norm;
  });
  return norms;
}

TEST(StepWordTest, AllGetTheNormOfTheWholeModel) {
  const std::vector<double> norms = NormsOf(2, {9, 16});
  for (const double norm : norms) EXPECT_EQ(norm, 5);
}

TEST(StepWordTest, TheNumberOfReplicasDoesNotChangeABit) {
  const std::vector<double> squares = {0.1, 0.7, 1e-9};
  const double expected = std::sqrt(0.1 + 0.7 + 1e-9);
  for (const int replicas : {1, 2, 3}) {
    for (const double norm : NormsOf(replicas, squares)) EXPECT_EQ(norm, expected);
  }
}

TEST(StepWordTest, WhatIsNotFiniteOnOneRankIsSoOnAll) {
  for (const double norm : NormsOf(2, {1, std::numeric_limits<double>::quiet_NaN()})) {
    EXPECT_FALSE(std::isfinite(norm));
  }
}

TEST(StepWordTest, NobodyReturnsBeforeAllHaveGivenTheirWord) {
  TrainerConfig job = Ranks(4);
  job.member.shards = 2;
  absl::Mutex mu;
  int given = 0;
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    const std::shared_ptr<Group> all = groups.MakeOfAll("word", 1, Groups::Traffic::kOnHost);
    StepWord word(*all, config.member);
    for (int step = 1; step <= 20; ++step) {
      {
        const absl::MutexLock lock(&mu);
        ++given;
      }
      word.Give(1);
      const absl::MutexLock lock(&mu);
      EXPECT_GE(given, 4 * step);
    }
  });
}

}  // namespace
}  // namespace paceline
