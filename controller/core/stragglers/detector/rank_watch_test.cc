#include "controller/core/stragglers/detector/rank_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace paceline {
namespace {

using Change = RankWatch::Change;
using State = RankWatch::State;

struct Watched {
  Watched() {
    noise.sigma = 0.008;
    noise.tail = 0.005;
  }

  // Plays residuals around `level`. Returns the last change that was not kNone.
  Change Play(int rows, double level, double backward_share = 1) {
    Change last = Change::kNone;
    for (int i = 0; i < rows; ++i, ++step) {
      WatchRow row;
      row.step = step;
      row.residual = level + own * noise.sigma * normal(random);
      row.forward = row.residual;
      row.backward = backward_share * row.residual;
      row.lost_s = level > 0 ? 0.1 : 0;
      row.job_s = job_s;
      row.tick = tick;
      row.held = held;
      const Change change = watch.Update(row, noise, options);
      if (change == Change::kNone) continue;
      last = change;
      changed = step;
    }
    return last;
  }

  WatchOptions options;
  NoiseLevel noise;
  RankWatch watch;
  double own = 1;  // The rank's noise, divided by noise.sigma.
  double tick = 0;
  bool held = false;
  double job_s = 1;
  int64_t step = 0;
  int64_t changed = -1;
  uint64_t seed = 5;
  std::mt19937_64 random{seed};
  std::normal_distribution<double> normal;
};

TEST(RankWatchTest, FourSlowRowsAreFoundAndThreeAreNot) {
  Watched watched;
  EXPECT_EQ(watched.Play(100, 0), Change::kNone);
  EXPECT_EQ(watched.Play(4, 0.3), Change::kSuspect);
  EXPECT_EQ(watched.watch.since_step(), 100);
  EXPECT_EQ(watched.changed, 103);
  Watched other;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(other.Play(50, 0), Change::kNone);
    EXPECT_EQ(other.Play(3, 0.3), Change::kNone);
  }
}

TEST(RankWatchTest, ForwardAloneNeedsFive) {
  Watched watched;
  watched.Play(100, 0);
  EXPECT_EQ(watched.Play(4, 0.3, 0), Change::kNone);
  EXPECT_EQ(watched.Play(1, 0.3, 0), Change::kSuspect);
}

TEST(RankWatchTest, WhereFarOffRowsFollowEachOtherMoreAreNeeded) {
  Watched watched;
  watched.noise.tail = 0.1;
  watched.Play(100, 0);
  EXPECT_EQ(watched.Play(8, 0.3), Change::kNone);
  EXPECT_EQ(watched.Play(1, 0.3), Change::kSuspect);
}

TEST(RankWatchTest, SlowFromTheStartIsFound) {
  Watched watched;
  EXPECT_EQ(watched.Play(6, 0.1), Change::kSuspect);
  EXPECT_EQ(watched.watch.since_step(), 0);
}

TEST(RankWatchTest, ThreePercentAreNoStraggler) {
  Watched watched;
  EXPECT_EQ(watched.Play(3000, 0.025), Change::kNone);
}

TEST(RankWatchTest, NotFartherThanTheHardwareSpreads) {
  Watched watched;
  watched.noise.hardware = 0.12;
  EXPECT_EQ(watched.Play(500, 0.1), Change::kNone);
  EXPECT_EQ(watched.Play(20, 0.2), Change::kSuspect);
}

TEST(RankWatchTest, HardwareExplainsNoChange) {
  Watched watched;
  watched.noise.hardware = 0.3;
  EXPECT_EQ(watched.Play(100, 0), Change::kNone);
  EXPECT_EQ(watched.Play(200, 0.1), Change::kPersistent);
  Watched other;
  other.noise.hardware = 0.3;
  EXPECT_EQ(other.Play(500, 0.1), Change::kNone) << "it may always have been so";
}

TEST(RankWatchTest, LevelThatFitsNoRowIsLearnedAnew) {
  Watched watched;
  watched.noise.sigma = 0.3;
  watched.Play(60, -0.8);
  watched.noise.sigma = 0.008;
  watched.Play(90, 0);
  EXPECT_LT(watched.watch.level(), -0.6) << "it may be back soon";
  watched.Play(20, 0);
  EXPECT_NEAR(watched.watch.level(), 0, 0.01);
}

TEST(RankWatchTest, NotFartherThanTheClockTicks) {
  Watched watched;
  watched.tick = 0.06;
  EXPECT_EQ(watched.Play(500, 0.1), Change::kNone);
  EXPECT_EQ(watched.Play(20, 0.2), Change::kSuspect);
  EXPECT_NEAR(watched.watch.estimate().high / watched.watch.estimate().slowdown, 1.06, 0.02);
}

TEST(RankWatchTest, NoisyRankIsNotSlow) {
  Watched watched;
  for (int i = 0; i < 5000; ++i) {
    WatchRow row;
    row.step = i;
    row.residual = row.forward = row.backward = 0.05 * watched.normal(watched.random);
    EXPECT_EQ(watched.watch.Update(row, watched.noise, watched.options), Change::kNone) << i;
  }
}

TEST(RankWatchTest, NormalRowsEndTheEpisode) {
  Watched watched;
  watched.Play(50, 0);
  watched.Play(30, 0.1);
  EXPECT_EQ(watched.Play(19, 0), Change::kNone);
  EXPECT_EQ(watched.watch.state(), State::kSuspect);
  EXPECT_EQ(watched.Play(3, 0), Change::kTransient);
  EXPECT_EQ(watched.watch.state(), State::kHealthy);
  EXPECT_NEAR(watched.watch.estimate().slowdown, std::exp(0.1), 0.02);
}

TEST(RankWatchTest, LongEpisodeIsPersistentAndEndsLater) {
  Watched watched;
  watched.Play(50, 0);
  EXPECT_EQ(watched.Play(119, 0.1), Change::kSuspect);
  EXPECT_EQ(watched.Play(3, 0.1), Change::kPersistent);
  EXPECT_NEAR(watched.watch.lost_share(), 0.1, 0.01);
  EXPECT_EQ(watched.Play(90, 0), Change::kNone);
  EXPECT_EQ(watched.Play(20, 0), Change::kRecovered);
}

TEST(RankWatchTest, EndIsJudgedByTheRanksOwnNoiseIfThatIsLess) {
  Watched quiet;
  quiet.noise.sigma = 0.19;
  quiet.own = 0.08;
  quiet.Play(50, 0);
  ASSERT_EQ(quiet.Play(300, 0.75), Change::kPersistent);
  EXPECT_EQ(quiet.Play(300, 0.2), Change::kNone) << "it is less slow, and not well";
  EXPECT_EQ(quiet.Play(90, 0), Change::kNone);
  EXPECT_EQ(quiet.Play(20, 0), Change::kRecovered);
  Watched noisy;
  noisy.noise.sigma = 0.19;
  noisy.Play(50, 0);
  ASSERT_EQ(noisy.Play(300, 0.75), Change::kPersistent);
  EXPECT_EQ(noisy.Play(110, 0), Change::kNone);
}

TEST(RankWatchTest, NotPersistentBeforeItsTimeNorWhileHeld) {
  Watched watched;
  watched.job_s = 0.05;
  watched.Play(50, 0);
  EXPECT_EQ(watched.Play(198, 0.1), Change::kSuspect);
  EXPECT_EQ(watched.Play(5, 0.1), Change::kPersistent) << "10 s";
  Watched held;
  held.held = true;
  EXPECT_EQ(held.Play(500, 0.1), Change::kSuspect);
  held.held = false;
  EXPECT_EQ(held.Play(100, 0.1), Change::kNone) << "rows under an event do not count";
  EXPECT_EQ(held.Play(30, 0.1), Change::kPersistent);
}

TEST(RankWatchTest, OnlyRowsThatWereSlowCount) {
  Watched watched;
  watched.Play(50, 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(watched.Play(2, 0.05), Change::kNone);
    EXPECT_EQ(watched.Play(1, 0), Change::kNone);
  }
  ASSERT_EQ(watched.Play(40, 0.05), Change::kSuspect);
  EXPECT_LT(watched.watch.since_step(), 80) << "evidence was left of the first rows";
  EXPECT_EQ(watched.Play(39, 0.05), Change::kNone) << "of the first 60, 40 were slow";
  EXPECT_EQ(watched.Play(20, 0.05), Change::kPersistent);
}

TEST(RankWatchTest, CorrelatedNoiseNeedsMore) {
  Watched watched;
  watched.noise = {0.03, 0, 19, 0.005, 0};
  watched.Play(50, 0);
  EXPECT_EQ(watched.Play(96, 0.4), Change::kSuspect);
  EXPECT_EQ(watched.Play(40, 0.06), Change::kNone) << "it has ended, and the noise is high";
  EXPECT_EQ(watched.Play(120, 0.1), Change::kPersistent);
}

TEST(RankWatchTest, RecurrentSuspectIsPersistentAtOnce) {
  Watched watched;
  watched.Play(50, 0);
  ASSERT_EQ(watched.Play(5, 0.1), Change::kSuspect);
  watched.watch.SetRecurrent();
  EXPECT_EQ(watched.Play(1, 0.1), Change::kPersistent);
}

TEST(RankWatchTest, IntervalCoversTheTruth) {
  int covered = 0;
  double widths = 0;
  for (int seed = 0; seed < 200; ++seed) {
    Watched watched;
    watched.random.seed(static_cast<uint64_t>(seed));
    watched.noise.inflation = 1;
    watched.noise.rho = 0;
    watched.Play(50, 0);
    ASSERT_EQ(watched.Play(150, 0.1), Change::kPersistent);
    const SlowdownEstimate& estimate = watched.watch.estimate();
    covered += estimate.low <= std::exp(0.1) && std::exp(0.1) <= estimate.high;
    widths += estimate.high / estimate.low - 1;
  }
  EXPECT_GE(covered, 184);
  EXPECT_LT(widths / 200, 0.008);
}

TEST(RankWatchTest, IntervalKnowsThatItsOwnRowsAreCorrelated) {
  int covered = 0;
  for (int seed = 0; seed < 200; ++seed) {
    Watched watched;
    watched.random.seed(static_cast<uint64_t>(seed));
    watched.noise.sigma = 0.005;
    watched.noise.inflation = 1;
    watched.noise.rho = 0;
    watched.Play(50, 0);
    double chance = 0;
    Change change = Change::kNone;
    for (int i = 0; i < 200 && change != Change::kPersistent; ++i) {
      chance = 0.6 * chance + 0.8 * 0.01 * watched.normal(watched.random);
      WatchRow row;
      row.residual = row.forward = row.backward = 0.1 + chance;
      row.job_s = 1;
      change = watched.watch.Update(row, watched.noise, watched.options);
    }
    ASSERT_EQ(change, Change::kPersistent);
    const SlowdownEstimate& estimate = watched.watch.estimate();
    covered += estimate.low <= std::exp(0.1) && std::exp(0.1) <= estimate.high;
  }
  EXPECT_GE(covered, 180);
}

}  // namespace
}  // namespace paceline
