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

TEST(SimTest, ASeedIsTheSameHistoryEachTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(Describe(seed, 100000), Describe(seed, 100000));
  }
}

}  // namespace
}  // namespace paceline::sim
