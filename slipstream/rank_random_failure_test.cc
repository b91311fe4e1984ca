// Whole ranks in random interleavings that are killed, or have bad updates or models.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "slipstream/random_jobs.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {
namespace {

TEST(RankRandomFailureTest, RanksAreKilledAtAnyMomentAndTheOthersGoOnFromTheSameModel) {
  int recovered = 0;
  for (uint64_t seed = 1; seed <= Seeds(200); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 3 + static_cast<int>(seed % 9);
    options.target_steps = 60;
    options.stall_probability = 0.02;
    options.longest_message = absl::Milliseconds(seed % 2 == 0 ? 100 : 3);
    options.longest_pass = absl::Milliseconds(seed % 3 == 0 ? 30 : 3);
    options.periods = {seed % 5 == 0 ? 7 : 0, 0};
    SimulatedRanks job(options);
    KillThrice(job);
    job.OnRound([&job, seed](int64_t round) {
      if (round == 20) job.Prepare(Plan(2, kModes[seed / 4 % 4]), absl::Milliseconds(50));
    });
    job.Run();
    ASSERT_EQ(job.error(), "");
    if (job.latest().generation > 1 && job.ended()) ++recovered;
  }
  EXPECT_GT(recovered, static_cast<int>(Seeds(150)));
}

// The others wait for the killed rank, as they evaluate and save together.
TEST(RankRandomFailureTest, AfterTheLastRoundARankIsKilledAndNoneIsMadeAgain) {
  for (uint64_t seed = 1; seed <= Seeds(80); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 3 + static_cast<int>(seed % 5);
    options.target_steps = 20;
    SimulatedRanks undisturbed(options);
    undisturbed.Run();
    ASSERT_EQ(undisturbed.error(), "");
    // Before some ranks know that it is the last round, and after.
    for (const double ms : {-5.0, -1.0, 0.0, 1.0, 100.0}) {
      SimulatedRanks job(options);
      job.After(undisturbed.trained() + absl::Milliseconds(ms), [&job, seed] {
        job.Kill(static_cast<int>(seed / 4 % 3), /*replaced=*/seed % 2 == 0);
      });
      job.Run();
      ASSERT_EQ(job.error(), "");
      EXPECT_TRUE(job.ended());
      EXPECT_EQ(job.latest().generation, 2);
      if (ms <= 0) continue;  // If both come at the same moment, the kill is first.
      EXPECT_EQ(job.latest().round, undisturbed.latest().round);
      EXPECT_EQ(job.latest().total.steps(), undisturbed.latest().total.steps());
    }
    if (HasFailure()) return;
  }
}

TEST(RankRandomFailureTest, RanksWithALossyFormatAreKilledAtAnyMoment) {
  int recovered = 0;
  for (uint64_t seed = 1; seed <= Seeds(100); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = seed % 2 == 0 ? Mode::kFree : Mode::kPause;
    options.lossy_updates = true;
    options.ranks = 3 + static_cast<int>(seed % 7);
    options.target_steps = 60;
    options.window = {1, 1, 4};
    options.periods = {3, 0};
    options.longest_message = absl::Milliseconds(seed % 2 == 0 ? 100 : 3);
    options.longest_pass = absl::Milliseconds(seed % 3 == 0 ? 30 : 3);
    SimulatedRanks job(options);
    KillThrice(job);
    job.Run();
    ASSERT_EQ(job.error(), "");
    if (job.latest().generation > 1 && job.ended()) ++recovered;
  }
  EXPECT_GT(recovered, static_cast<int>(Seeds(75)));
}

TEST(RankRandomFailureTest, AFlippedBitIsFoundAndItsRankNamed) {
  for (const Mode mode : kModes) {
    SimulatedRanks::Options options;
    options.mode = mode;
    options.target_steps = 4000;
    options.stops_at_bad_update = true;
    SimulatedRanks job(options);
    job.IgnoreDivergence();
    job.After(absl::Seconds(5), [&] { job.rank(6).z[1] += 1; });
    job.Run();
    EXPECT_EQ(job.error(), "");
    EXPECT_TRUE(job.ended());
    for (int rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_EQ(job.rank(rank).machine.fault_ranks(), std::vector<int>{6}) << rank;
    }
  }
}

TEST(RankRandomFailureTest, ABadUpdateIsLeftOutOrStopsAll) {
  for (const Mode mode : kModes) {
    for (const bool stops : {false, true}) {
      SimulatedRanks::Options options;
      options.mode = mode;
      options.stops_at_bad_update = stops;
      SimulatedRanks job(options);
      job.After(absl::Seconds(1), [&] { job.Poison(4); });
      job.Run();
      ASSERT_EQ(job.error(), "");
      EXPECT_TRUE(job.ended());
      for (int rank = 0; rank < job.ranks(); ++rank) {
        const SlipstreamRank& machine = job.rank(rank).machine;
        EXPECT_EQ(machine.fault_ranks(), stops ? std::vector<int>{4} : std::vector<int>());
      }
      if (!stops) ExpectComplete(job, options.target_steps);
    }
  }
}

// The state is averaged over the ranks when the mode changes.
TEST(RankRandomFailureTest, TheOptimizersStateOfABadUpdateReachesNobody) {
  for (uint64_t seed = 1; seed <= Seeds(40); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.ranks = 2 + static_cast<int>(seed % 4);
    options.mode = seed % 2 == 0 ? Mode::kFree : Mode::kPause;
    options.averages_state = seed % 4 < 2;
    options.stops_at_bad_update = false;
    options.stall_probability = 0.2;
    SimulatedRanks job(options);
    job.After(absl::Seconds(1), [&] {
      job.Poison(1);
      job.Prepare(Plan(2, Mode::kDrop), absl::Milliseconds(100));
    });
    job.Run();
    ExpectComplete(job, options.target_steps);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      for (const double value : job.rank(rank).slots) EXPECT_TRUE(std::isfinite(value));
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace paceline
