// The seeds that once failed, and some thousands more.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
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

std::string EventsOf(const Outcome& outcome) {
  std::string events;
  for (const std::string& event : outcome.events) events += event + "\n";
  return events;
}

int64_t CountOf(const Outcome& outcome, const std::string& what) {
  const auto found = outcome.coverage.find(what);
  return found == outcome.coverage.end() ? 0 : found->second;
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
  std::map<std::string, int64_t> histories;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    const Outcome outcome = RunHistory(seed, 0);
    if (!outcome.failure.empty()) FAIL() << Describe(seed, kEventsShown);
    for (const auto& [what, count] : outcome.coverage) histories[what] += count;
  }
  for (const char* rare : {"rank replaced", "rank replaced in a domain", "shrank by a replica",
                           "grew by a replica", "applied a step by itself", "undid a prepared step",
                           "went back to copies", "a member died in a transfer"}) {
    EXPECT_GT(histories[absl::StrCat("history with shards: ", rare)], 0) << rare;
  }
  EXPECT_GT(histories["state handed over"], 0);
  for (const char* rare : {"started with fewer", "gave back", "grew beyond what it wants"}) {
    EXPECT_GT(histories[absl::StrCat("elastic: ", rare)], 0) << rare;
  }
}

TEST(SimTest, SeedsWithStandbysThatAnswerHoldEveryInvariant) {
  constexpr uint64_t kStandbySeeds = 500;
  int64_t held = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kStandbySeeds; ++seed) {
    const Outcome outcome = RunHistory(seed, 0, /*standbys=*/true);
    if (!outcome.failure.empty()) {
      FAIL() << EventsOf(RunHistory(seed, kEventsShown, /*standbys=*/true)) << "seed " << seed
             << ": " << outcome.failure;
    }
    held += CountOf(outcome, "lease held while nobody leads");
  }
  EXPECT_GT(held, 0);
}

constexpr double kHour = 3600;

// As when etcd is lost: every controller stands by and says so, and nodes have leases.
TEST(SimTest, AnHourWithoutALeaderDisturbsNoJob) {
  constexpr uint64_t kOutages = 200;
  int64_t jobs = 0;
  for (uint64_t seed = 1; seed <= kOutages; ++seed) {
    const Outcome outcome = RunOutage(seed, kHour, /*standbys=*/true, 0);
    if (!outcome.failure.empty()) {
      FAIL() << EventsOf(RunOutage(seed, kHour, /*standbys=*/true, kEventsShown)) << "seed " << seed
             << ": " << outcome.failure;
    }
    EXPECT_GE(outcome.seconds, kHour);
    EXPECT_EQ(CountOf(outcome, "trainer fenced"), 0) << "seed " << seed;
    jobs += CountOf(outcome, "job trains without a controller");
  }
  EXPECT_GT(jobs, 50) << "too few to say anything";
}

// The same without answers: then nodes cannot know that nobody leads.
TEST(SimTest, AnHourWithoutAnAnswerEndsWhatCouldHaveBeenGivenAway) {
  constexpr uint64_t kOutages = 60;
  int64_t fenced = 0;
  for (uint64_t seed = 1; seed <= kOutages; ++seed) {
    const Outcome outcome = RunOutage(seed, kHour, /*standbys=*/false, 0);
    EXPECT_EQ(CountOf(outcome, "lease held while nobody leads"), 0);
    fenced += CountOf(outcome, "trainer fenced");
  }
  EXPECT_GT(fenced, 0);
}

TEST(SimTest, ASeedIsTheSameHistoryEachTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(Describe(seed, 100000), Describe(seed, 100000));
  }
}

}  // namespace
}  // namespace paceline::sim
