// For tests of whole simulated ranks: seeds, plans, and what holds of a complete job.
#ifndef SLIPSTREAM_RANDOM_JOBS_H_
#define SLIPSTREAM_RANDOM_JOBS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>

#include "absl/time/time.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {

using Mode = SlipstreamMode;

// The number of seeds: `usual`, or PACELINE_SEEDS times as many for a long run.
inline uint64_t Seeds(uint64_t usual) {
  const char* const factor = std::getenv("PACELINE_SEEDS");
  return factor == nullptr ? usual : usual * std::strtoull(factor, nullptr, 10);
}

inline constexpr Mode kModes[] = {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause};

inline SlipstreamPlan Plan(int64_t version, Mode mode) {
  SlipstreamPlan plan;
  plan.version = version;
  plan.mode = mode;
  return plan;
}

// Kills three ranks at random moments; the second gets no successor.
inline void KillThrice(SimulatedRanks& job) {
  std::uniform_real_distribution<double> when(0.1, 2);
  absl::Duration delay;
  for (int kill = 0; kill < 3; ++kill) {
    delay += absl::Seconds(when(job.random()));
    job.After(delay, [&job, kill] {
      if (job.ranks() < 2 || job.ended() || !job.has_recovered()) return;
      std::uniform_int_distribution<int> who(0, job.ranks() - 1);
      job.Kill(who(job.random()), /*replaced=*/kill % 2 == 0);
    });
  }
}

inline void ExpectComplete(SimulatedRanks& job, int64_t target) {
  ASSERT_EQ(job.error(), "");
  EXPECT_TRUE(job.ended());
  EXPECT_GE(job.latest().total.steps(), target);
  int64_t work = 0;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    const SimulatedRank& one = job.rank(rank);
    EXPECT_EQ(one.machine.fault(), "");
    EXPECT_EQ(one.z, job.rank(0).z);
    EXPECT_EQ(one.machine.state().round, job.latest().round);
    work += one.machine.sent_updates() + one.machine.used_gradients();
  }
  const RankSteps& total = job.latest().total;
  EXPECT_EQ(work, total.steps() * total.ranks() + total.remainder());
}

}  // namespace paceline

#endif  // SLIPSTREAM_RANDOM_JOBS_H_
