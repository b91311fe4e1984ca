// Whole ranks in groups that average their gradients in modes of updates: all holds that holds
// without groups, and nobody waits in vain for others of its group.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "slipstream/random_jobs.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {
namespace {

// Ranks of a group that wait for each other for ever would ask again and again.
constexpr absl::Duration kLong = absl::Minutes(10);

TEST(RankGroupTest, EachModeReachesItsTargetInGroupsOfAnySize) {
  for (uint64_t seed = 1; seed <= Seeds(160); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 2 + static_cast<int>(seed / 4 % 15);
    options.group_size = 2 + static_cast<int>(seed % 5);
    options.target_steps = 40;
    options.stall_probability = 0.03;
    options.freeze_probability = seed % 3 == 0 ? 0.01 : 0;
    options.longest_pass = absl::Milliseconds(seed % 5 == 0 ? 60 : 4);
    options.longest_message = absl::Milliseconds(seed % 7 == 0 ? 100 : 2);
    SimulatedRanks job(options);
    job.Run(kLong);
    ExpectComplete(job, options.target_steps);
    if (HasFailure()) return;
  }
}

TEST(RankGroupTest, ModesChangeAtTheSameStepOfAGroup) {
  for (uint64_t seed = 1; seed <= Seeds(24); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.ranks = 4 + static_cast<int>(seed % 6);
    options.group_size = 2 + static_cast<int>(seed % 2);
    options.mode = kModes[seed % 4];
    options.target_steps = 1'000'000;
    // Ranks are in stalled steps while modes come and go.
    options.stall_probability = seed % 3 == 0 ? 0.1 : 0.01;
    options.longest_message = absl::Milliseconds(seed % 4 == 0 ? 60 : 4);
    SimulatedRanks job(options);
    int64_t version = 1;
    job.OnRound([&](int64_t) {
      if (job.latest().plan.version < version || version == 100) return;
      const Mode mode = kModes[std::uniform_int_distribution<int>(0, 3)(job.random())];
      job.Prepare(Plan(++version, mode), absl::Milliseconds(100));
    });
    for (int i = 0; i < 900 && job.latest().plan.version < 100 && job.error().empty(); ++i) {
      job.Run(absl::Seconds(1));
    }
    ASSERT_EQ(job.error(), "");
    ASSERT_EQ(job.latest().plan.version, 100) << "seed " << seed;
    // Nobody is left waiting for another rank.
    const int64_t total = job.latest().total.steps();
    job.Run(absl::Seconds(60));
    ASSERT_EQ(job.error(), "");
    EXPECT_GT(job.latest().total.steps(), total + 50) << "seed " << seed;
    if (HasFailure()) return;
  }
}

TEST(RankGroupTest, ASilentRankHoldsUpItsGroupAndNobodyElse) {
  SimulatedRanks::Options options;
  options.ranks = 8;
  options.group_size = 2;
  options.target_steps = 400;
  options.longest_pass = absl::Microseconds(200);
  options.longest_message = absl::Milliseconds(1);
  SimulatedRanks job(options);
  job.After(absl::Seconds(2), [&] { job.rank(3).extra = absl::Seconds(13); });
  job.Run(absl::Seconds(3));
  const int64_t round = job.latest().round;
  const int64_t of_its_group = job.rank(2).steps;
  const int64_t of_others = job.rank(4).steps;
  job.Run(absl::Seconds(11));
  ASSERT_EQ(job.error(), "");
  EXPECT_GE(job.latest().round - round, 80);
  EXPECT_EQ(job.rank(2).steps, of_its_group);
  EXPECT_GE(job.rank(4).steps - of_others, 100);
  for (const int rank : {0, 1, 4, 5, 6, 7}) {
    for (const absl::Duration waited : job.rank(rank).waited) {
      EXPECT_EQ(waited, absl::ZeroDuration()) << rank;
    }
  }
  job.Run(kLong);
  ExpectComplete(job, options.target_steps);
}

TEST(RankGroupTest, RanksAreKilledAtAnyMomentAndTheOthersGoOnInNewGroups) {
  int recovered = 0;
  for (uint64_t seed = 1; seed <= Seeds(200); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 4 + static_cast<int>(seed % 9);
    options.group_size = 2 + static_cast<int>(seed % 3);
    options.target_steps = 60;
    options.stall_probability = 0.02;
    options.longest_message = absl::Milliseconds(seed % 2 == 0 ? 60 : 3);
    options.longest_pass = absl::Milliseconds(seed % 3 == 0 ? 30 : 3);
    options.periods = {seed % 5 == 0 ? 7 : 0, 0};
    SimulatedRanks job(options);
    KillThrice(job);
    job.OnRound([&job, seed](int64_t round) {
      if (round == 20) job.Prepare(Plan(2, kModes[seed / 4 % 4]), absl::Milliseconds(50));
    });
    job.Run(kLong);
    ASSERT_EQ(job.error(), "");
    EXPECT_TRUE(job.ended()) << "seed " << seed;
    if (job.latest().generation > 1) ++recovered;
    if (HasFailure()) return;
  }
  EXPECT_GT(recovered, static_cast<int>(Seeds(150)));
}

TEST(RankGroupTest, GroupsComeToStopsSavesAndTheEndOfAGeneration) {
  for (uint64_t seed = 1; seed <= Seeds(80); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 2 + static_cast<int>(seed % 7);
    options.group_size = 2 + static_cast<int>(seed % 2);
    options.target_steps = 1'000'000;
    options.stall_probability = 0.02;
    options.periods = {10, 4 + static_cast<int64_t>(seed % 5)};
    SimulatedRanks job(options);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      SlipstreamRank& machine = job.rank(rank).machine;
      std::uniform_real_distribution<double> seconds(0, 2);
      job.After(absl::Seconds(seconds(job.random())), [&machine] { machine.OrderSave(1); });
      job.After(absl::Seconds(8 + seconds(job.random())), [&machine] { machine.ReadyToLeave(2); });
    }
    job.OnRound([&job, seed](int64_t round) {
      if (round == 10) job.Prepare(Plan(2, kModes[seed / 4 % 4]), absl::Milliseconds(50));
    });
    job.Run(kLong);
    ASSERT_EQ(job.error(), "");
    EXPECT_TRUE(job.ended());
    EXPECT_EQ(job.saves().size(), 1U);
    EXPECT_GT(job.stops().size(), 1U);
    for (int rank = 0; rank < job.ranks(); ++rank) EXPECT_EQ(job.rank(rank).x, job.rank(0).z);
    if (HasFailure()) return;
  }
}

TEST(RankGroupTest, ABadUpdateOfOneOfAGroupStopsAllOrIsLeftOut) {
  for (const bool stops : {false, true}) {
    SimulatedRanks::Options options;
    options.group_size = 4;
    options.stops_at_bad_update = stops;
    SimulatedRanks job(options);
    job.After(absl::Seconds(1), [&] { job.Poison(4); });
    job.Run(kLong);
    ASSERT_EQ(job.error(), "");
    EXPECT_TRUE(job.ended());
    for (int rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_EQ(job.rank(rank).machine.fault_ranks(),
                stops ? std::vector<int>{4} : std::vector<int>());
    }
    if (!stops) ExpectComplete(job, options.target_steps);
  }
}

}  // namespace
}  // namespace paceline
