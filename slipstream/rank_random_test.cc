// Whole ranks in random interleavings; testing/simulated_ranks.h says what is checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "slipstream/random_jobs.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {
namespace {

TEST(RankRandomTest, EachModeReachesItsTargetWhateverComesFirst) {
  for (uint64_t seed = 1; seed <= Seeds(160); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 1 + static_cast<int>(seed / 4 % 16);
    options.target_steps = 40;
    options.stall_probability = 0.03;
    options.freeze_probability = seed % 3 == 0 ? 0.01 : 0;
    options.longest_pass = absl::Milliseconds(seed % 5 == 0 ? 60 : 4);
    options.longest_message = absl::Milliseconds(seed % 7 == 0 ? 200 : 2);
    SimulatedRanks job(options);
    job.Run();
    ExpectComplete(job, options.target_steps);
    if (HasFailure()) return;
  }
}

// When all train by a plan the next one comes, at a random moment for each rank.
TEST(RankRandomTest, APlanChangeEveryFewRoundsHoldsFromTheSameRoundEverywhere) {
  for (uint64_t seed = 1; seed <= Seeds(8); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.ranks = 2 + static_cast<int>(seed % 7);
    options.mode = kModes[seed % 4];
    options.target_steps = 1'000'000;
    options.stall_probability = 0.01;
    SimulatedRanks job(options);
    int64_t version = 1;
    job.OnRound([&](int64_t) {
      if (job.latest().plan.version < version || version == 200) return;
      const Mode mode = kModes[std::uniform_int_distribution<int>(0, 3)(job.random())];
      job.Prepare(Plan(++version, mode), absl::Milliseconds(100));
    });
    for (int i = 0; i < 600 && job.latest().plan.version < 200 && job.error().empty(); ++i) {
      job.Run(absl::Seconds(1));
    }
    ASSERT_EQ(job.error(), "");
    EXPECT_EQ(job.latest().plan.version, 200);
    EXPECT_EQ(job.plan_rounds().size(), 199U);
    if (HasFailure()) return;
  }
}

TEST(RankRandomTest, ASilentRankHoldsUpNobodyAndIsBackWithItsWork) {
  SimulatedRanks::Options options;
  options.ranks = 8;
  options.target_steps = 400;
  options.longest_pass = absl::Microseconds(200);
  options.longest_message = absl::Milliseconds(1);
  SimulatedRanks job(options);
  job.After(absl::Seconds(2), [&] { job.rank(3).extra = absl::Seconds(13); });
  job.Run(absl::Seconds(2));
  const int64_t round = job.latest().round;
  job.Run(absl::Seconds(12));
  ASSERT_EQ(job.error(), "");
  EXPECT_GE(job.latest().round - round, 100);
  const int64_t sent = job.rank(3).machine.sent_updates();
  for (int rank = 0; rank < 8; ++rank) {
    for (const absl::Duration waited : job.rank(rank).waited) {
      EXPECT_EQ(waited, absl::ZeroDuration()) << rank;
    }
  }
  job.Run(absl::Seconds(2));
  EXPECT_GT(job.rank(3).machine.sent_updates(), sent);
  job.Run();
  ExpectComplete(job, options.target_steps);
}

TEST(RankRandomTest, ARankThatIsSlowForEverStillContributesToDrop) {
  for (const double slowness : {1.5, 4.0}) {
    SimulatedRanks::Options options;
    options.ranks = 8;
    options.mode = Mode::kDrop;
    options.jitter = 0.05;
    options.target_steps = 400;
    SimulatedRanks job(options);
    job.rank(5).slowness = slowness;
    job.Run();
    ExpectComplete(job, options.target_steps);
    const SimulatedRank& slow = job.rank(5);
    EXPECT_GE(slow.machine.used_gradients(), slow.steps / 4 - 1);
    EXPECT_GT(job.rank(0).machine.used_gradients(), 390);
  }
}

TEST(RankRandomTest, AWindowGrowsWhereEveryStallFreezesTheCommunication) {
  SimulatedRanks::Options options;
  options.freeze_probability = 0.05;
  options.target_steps = 2000;
  SimulatedRanks job(options);
  job.Run(absl::Seconds(100));
  ASSERT_EQ(job.error(), "");
  EXPECT_GE(job.latest().window.frozen_steps(), 32);
  job.Run();
  ExpectComplete(job, options.target_steps);
}

// Now and then a thread waits for a core for three steps. That is many times what a collective
// takes, but not so long that others wait for the round.
TEST(RankRandomTest, OrdinaryNoiseDoesNotMakeAWindowGrow) {
  SimulatedRanks::Options options;
  options.step = absl::Milliseconds(10);
  options.longest_pass = absl::Microseconds(100);
  options.freeze_probability = 0.02;
  options.freeze = absl::Milliseconds(30);
  options.first_step = 10'000;
  options.target_steps = 12'000;
  SimulatedRanks job(options);
  int64_t longest = 0;
  job.OnRound([&](int64_t) { longest = std::max(longest, job.latest().window.frozen_steps()); });
  job.Run();
  EXPECT_EQ(job.error(), "");
  EXPECT_TRUE(job.ended());
  EXPECT_EQ(longest, 0);
}

// A clock that is 2 % fast makes neither its rank wait for the others nor them for it.
TEST(RankRandomTest, ClocksOfDifferentSpeedDoNotDriftIntoWaiting) {
  SimulatedRanks::Options options;
  options.clock_error = 0;
  options.target_steps = 2000;
  SimulatedRanks even(options);
  even.Run(absl::Seconds(60));
  SimulatedRanks uneven(options);
  uneven.rank(2).clock_rate = 1.02;
  uneven.Run(absl::Seconds(60));
  EXPECT_NEAR(static_cast<double>(uneven.latest().round), static_cast<double>(even.latest().round),
              0.03 * static_cast<double>(even.latest().round));
  EXPECT_FALSE(uneven.latest().window.frozen_steps() > 0);
}

// One step a round and momentum averaged with the model: the same as synchronous SGD with momentum.
TEST(RankRandomTest, AWindowOfOneStepWithAPauseIsSynchronous) {
  constexpr int kRanks = 5;
  constexpr double kRate = 0.1;
  constexpr double kMomentum = 0.9;
  const auto gradient = [](int rank, double x, size_t i) {
    return (1 + 0.3 * rank) * (x - rank + static_cast<double>(i));
  };
  SimulatedRanks::Options options;
  options.ranks = kRanks;
  options.mode = Mode::kPause;
  options.window = {1, 1, 1};
  options.averages_state = true;
  options.stall_probability = 0.05;
  options.update = [&](int rank, SimulatedVector& x, SimulatedVector& slots) {
    for (size_t i = 0; i < kSimulatedSize; ++i) {
      slots[i] = kMomentum * slots[i] + gradient(rank, x[i], i);
      x[i] -= kRate * slots[i];
    }
  };
  SimulatedRanks job(options);
  SimulatedVector x(kSimulatedSize, 0);
  SimulatedVector velocity(kSimulatedSize, 0);
  job.OnRound([&](int64_t) {
    for (size_t i = 0; i < kSimulatedSize; ++i) {
      double mean = 0;
      for (int rank = 0; rank < kRanks; ++rank) mean += gradient(rank, x[i], i) / kRanks;
      velocity[i] = kMomentum * velocity[i] + mean;
      x[i] -= kRate * velocity[i];
      EXPECT_NEAR(job.rank(0).z[i], x[i], 1e-9);
    }
  });
  job.Run();
  ASSERT_EQ(job.error(), "");
  EXPECT_EQ(job.latest().round, options.target_steps);
  EXPECT_EQ(job.latest().total, RankSteps(kRanks, options.target_steps));
}

TEST(RankRandomTest, SavesAndTheEndOfAGenerationAreOfOneRoundWhateverTheMode) {
  for (uint64_t seed = 1; seed <= Seeds(80); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 2 + static_cast<int>(seed % 6);
    options.target_steps = 1'000'000;
    options.stall_probability = 0.02;
    options.periods = {seed % 3 == 0 ? 25 : 0, 0};
    SimulatedRanks job(options);
    const auto later = [&job](double seconds) {
      return absl::Seconds(seconds + std::uniform_real_distribution<double>(0, 2)(job.random()));
    };
    for (int rank = 0; rank < job.ranks(); ++rank) {
      SlipstreamRank& machine = job.rank(rank).machine;
      job.After(later(0), [&machine] { machine.OrderSave(1); });
      job.After(later(6), [&machine] { machine.OrderSave(2); });
      job.After(later(12), [&machine] { machine.ReadyToLeave(2); });
    }
    job.Run();
    ASSERT_EQ(job.error(), "");
    EXPECT_TRUE(job.ended());
    EXPECT_EQ(job.saves().size(), 2U);
    EXPECT_TRUE(job.latest().leaves);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_EQ(job.rank(rank).x, job.rank(0).z);
      EXPECT_EQ(job.rank(rank).machine.updates(), job.rank(rank).machine.sent_updates())
          << "nothing is left behind";
    }
    if (HasFailure()) return;
  }
}

TEST(RankRandomTest, AllRanksComeToTheSameStopsWithTheSameModel) {
  for (uint64_t seed = 1; seed <= Seeds(80); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = kModes[seed % 4];
    options.ranks = 1 + static_cast<int>(seed % 9);
    options.target_steps = 60;
    options.periods = {10, 4 + static_cast<int64_t>(seed % 5)};
    options.stall_probability = 0.02;
    SimulatedRanks job(options);
    job.OnRound([&job, seed](int64_t round) {
      if (round == 10) job.Prepare(Plan(2, kModes[seed / 4 % 4]), absl::Milliseconds(50));
    });
    job.Run();
    ExpectComplete(job, options.target_steps);
    int evaluations = 0;
    for (const auto& [round, stop] : job.stops()) {
      EXPECT_EQ(stop.ranks, job.ranks());
      if (stop.due.evaluates) ++evaluations;
    }
    // In a round of many steps two may coincide.
    EXPECT_GE(evaluations, 3);
    EXPECT_LE(evaluations, 5);
    if (HasFailure()) return;
  }
}

// To the bit, each round moves the model by what all ranks have sent: what they had, minus the
// rests. Each rank's x - ref is what it has not sent. At stops and at the end nothing is left.
TEST(RankRandomTest, WhatALossyFormatLeavesOutIsSentLater) {
  static constexpr Mode kPlans[] = {Mode::kFree, Mode::kPause, Mode::kDrop, Mode::kFree};
  for (uint64_t seed = 1; seed <= Seeds(200); ++seed) {
    SimulatedRanks::Options options;
    options.seed = seed;
    options.mode = seed % 2 == 0 ? Mode::kFree : Mode::kPause;
    options.lossy_updates = true;
    options.ranks = 1 + static_cast<int>(seed % 11);
    options.target_steps = 60;
    options.periods = {seed % 3 == 0 ? 10 : 0, 0};
    if (seed % 4 < 2) options.window = {1, 1, 4};
    options.stall_probability = 0.02;
    options.longest_pass = absl::Milliseconds(seed % 5 == 0 ? 40 : 4);
    options.stops_at_bad_update = false;
    SimulatedRanks job(options);
    job.OnRound([&job, seed](int64_t round) {
      if (round == 10) job.Prepare(Plan(2, kPlans[seed / 2 % 4]), absl::Milliseconds(50));
      if (round == 20) job.Prepare(Plan(3, Mode::kFree), absl::Milliseconds(50));
    });
    for (int i = 0; i < 5 && seed % 7 == 0; ++i) {
      job.After(absl::Milliseconds(300 * i), [&job, i] { job.Poison(i % job.ranks()); });
    }
    job.Run();
    ExpectComplete(job, options.target_steps);
    if (HasFailure()) return;
  }
}

// The share of what the ranks would do if each paid only for its own stalls.
double ShareOfIdeal(Mode mode, int ranks, double stall_probability) {
  SimulatedRanks::Options options;
  options.ranks = ranks;
  options.mode = mode;
  options.step = absl::Milliseconds(55);
  options.jitter = 0.03;
  options.stall_probability = stall_probability;
  options.target_steps = 500;
  options.longest_message = absl::Microseconds(500);
  options.longest_pass = absl::Microseconds(250);
  SimulatedRanks job(options);
  job.Run();
  EXPECT_EQ(job.error(), "");
  absl::Duration own;
  int64_t made = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    own += job.rank(rank).computed + job.rank(rank).stalled;
    made += job.rank(rank).steps;
  }
  const double per_step = absl::ToDoubleSeconds(own) / static_cast<double>(made);
  const double ideal = absl::ToDoubleSeconds(job.trained()) / per_step * ranks;
  const RankSteps& total = job.latest().total;
  return static_cast<double>(total.steps() * ranks + total.remainder()) / ideal;
}

TEST(RankRandomTest, FreeComesNearToTheIdealAndDropBelowIt) {
  EXPECT_GT(ShareOfIdeal(Mode::kFree, 32, 0.02), 0.97);
  EXPECT_GT(ShareOfIdeal(Mode::kDrop, 32, 0.02), 0.83);
  EXPECT_LT(ShareOfIdeal(Mode::kSync, 32, 0.02), 0.20);
}

}  // namespace
}  // namespace paceline
