// The seeds that once failed, and some thousands more.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "tests/sim/history.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kFirstSeed = 1;
constexpr uint64_t kSeeds = 2000;
constexpr size_t kEventsShown = 40;

void RunSeed(uint64_t seed) {
  if (RunHistory(seed, 0).failure.empty()) return;
  FAIL() << Describe(seed, kEventsShown);
}

TEST(SimTest, SeedsThatOnceFailedHoldEveryInvariant) {
  std::ifstream file("tests/sim/regressions.txt");
  ASSERT_TRUE(file.is_open());
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    ASSERT_NO_FATAL_FAILURE(RunSeed(std::stoull(line)));
  }
}

TEST(SimTest, SeedsHoldEveryInvariant) {
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    ASSERT_NO_FATAL_FAILURE(RunSeed(seed));
  }
}

// As when etcd is lost, and every controller stands by.
TEST(SimTest, AnHourWithoutAControllerDisturbsNoJob) {
  constexpr double kHour = 3600;
  constexpr uint64_t kOutages = 200;
  const std::string trained = "job trains without a controller";
  int64_t jobs = 0;
  for (uint64_t seed = 1; seed <= kOutages; ++seed) {
    const Outcome outcome = RunOutage(seed, kHour, 0);
    if (!outcome.failure.empty()) {
      std::string events;
      for (const std::string& event : RunOutage(seed, kHour, kEventsShown).events) {
        events += event + "\n";
      }
      FAIL() << events << "seed " << seed << ": " << outcome.failure;
    }
    EXPECT_GE(outcome.seconds, kHour);
    const auto found = outcome.coverage.find(trained);
    if (found != outcome.coverage.end()) jobs += found->second;
  }
  EXPECT_GT(jobs, 50) << "too few to say anything";
}

TEST(SimTest, ASeedIsTheSameHistoryEachTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(Describe(seed, 100000), Describe(seed, 100000));
  }
}

}  // namespace
}  // namespace paceline::sim
