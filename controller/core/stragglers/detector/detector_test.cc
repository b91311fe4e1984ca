#include "controller/core/stragglers/detector/detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "controller/core/stragglers/detector/testing/sample_job.h"

namespace paceline {
namespace {

DetectorOptions Options() {
  DetectorOptions options;
  options.warm_up_steps = 0;
  return options;
}

TEST(StragglerDetectorTest, NobodyIsSlow) {
  SampleJob job(64, 8, 4);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 2000);
  EXPECT_TRUE(job.verdicts.empty());
  EXPECT_EQ(detector.counts().rows, 2000);
  EXPECT_EQ(detector.counts().taken, 2000 * 64);
  EXPECT_EQ(detector.status(5), RankStatus::kHealthy);
}

TEST(StragglerDetectorTest, LifeOfASlowRank) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 100);
  job.Slow({9}, 1.1);
  job.Play(detector, 200);
  ASSERT_EQ(job.verdicts.size(), 2U);
  const Verdict& suspect = job.verdicts[0];
  EXPECT_EQ(suspect.kind, VerdictKind::kSuspect);
  EXPECT_EQ(suspect.rank, 9);
  EXPECT_EQ(suspect.node, 2);
  EXPECT_EQ(suspect.peer_group, 0);
  EXPECT_LE(suspect.step, 104);
  EXPECT_NEAR(static_cast<double>(suspect.since_step), 100, 1);
  EXPECT_EQ(suspect.cause, StragglerCause::kCompute);
  EXPECT_EQ(suspect.episodes, 1);
  const Verdict& persistent = job.verdicts[1];
  EXPECT_EQ(persistent.kind, VerdictKind::kPersistent);
  EXPECT_EQ(persistent.rank, 9);
  EXPECT_NEAR(static_cast<double>(persistent.step), 220, 5);
  EXPECT_NEAR(persistent.slowdown, 1.1, 0.01);
  EXPECT_LT(persistent.slowdown_low, 1.1);
  EXPECT_GT(persistent.slowdown_high, 1.1);
  EXPECT_GT(persistent.slowdown_low, 1.08);
  EXPECT_LT(persistent.slowdown_high, 1.12);
  EXPECT_NEAR(persistent.lost_share, 0.08 / 1.1, 0.01) << "the slowest of 31 takes 1.02";
  EXPECT_EQ(detector.status(9), RankStatus::kPersistent);
  job.change = nullptr;
  job.Play(detector, 200);
  ASSERT_EQ(job.verdicts.size(), 3U);
  EXPECT_EQ(job.verdicts[2].kind, VerdictKind::kRecovered);
  EXPECT_NEAR(static_cast<double>(job.verdicts[2].step), 400, 5);
}

TEST(StragglerDetectorTest, SlowRankIsFoundOnceOthersThatWereSlowFromTheStartHaveRecovered) {
  SampleJob job(6, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) {
    const bool recovers = sample.rank == 3 || sample.rank == 4;
    const double factor = sample.rank == 2 ? 1.5 : recovers && sample.step < 60 ? 2.3 : 1;
    sample.forward_s *= factor;
    sample.backward_s *= factor;
  };
  job.Play(detector, 60);
  EXPECT_TRUE(job.verdicts.empty()) << "half of the ranks differ";
  job.Play(detector, 300);
  const auto persistent = job.Of(VerdictKind::kPersistent);
  ASSERT_EQ(persistent.size(), 1U);
  EXPECT_EQ(persistent[0].rank, 2);
  EXPECT_NEAR(persistent[0].slowdown, 1.5, 0.02);
}

TEST(StragglerDetectorTest, WhatEndsSoonIsTransient) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.Slow({9}, 1.5);
  job.Play(detector, 60);
  EXPECT_EQ(detector.status(9), RankStatus::kSuspect);
  job.change = nullptr;
  job.Play(detector, 40);
  ASSERT_EQ(job.verdicts.size(), 2U);
  EXPECT_EQ(job.verdicts[1].kind, VerdictKind::kTransient);
  EXPECT_NEAR(static_cast<double>(job.verdicts[1].step), 130, 2);
  EXPECT_NEAR(job.verdicts[1].slowdown, 1.5, 0.03);
}

TEST(StragglerDetectorTest, PausesOfThreeStepsAreNoStraggler) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) {
    if (sample.step % 40 < 3 && sample.rank == 9) sample.forward_s *= 3;
  };
  job.Play(detector, 1000);
  EXPECT_TRUE(job.verdicts.empty());
}

TEST(StragglerDetectorTest, RecurringEpisodesArePersistent) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  for (int i = 0; i < 3; ++i) {
    job.Slow({9}, 1.3);
    job.Play(detector, 30);
    job.change = nullptr;
    job.Play(detector, 30);
  }
  const auto persistent = job.Of(VerdictKind::kPersistent);
  ASSERT_EQ(persistent.size(), 1U);
  EXPECT_EQ(persistent[0].episodes, 3);
  EXPECT_LT(persistent[0].step, 135);
}

TEST(StragglerDetectorTest, EpisodesOutliveARestartWhereTheyHappened) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  for (int i = 0; i < 3; ++i) {
    job.Slow({9}, 1.3);
    job.Play(detector, 30);
    job.change = nullptr;
    job.Play(detector, 30);
    detector.Restart(job.ranks);
    job.step = 0;
  }
  const auto suspects = job.Of(VerdictKind::kSuspect);
  ASSERT_EQ(suspects.size(), 3U);
  EXPECT_EQ(suspects[2].episodes, 3);
  EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 1U);
}

// Eight ranks on two nodes, of which neither is a majority.
SampleJob JobOnTwoNodes(uint64_t seed) {
  SampleJob job(8, 4, 1);
  job.random.seed(seed);
  job.noise = seed % 2 == 0 ? 0.008 : 0.03;
  return job;
}

TEST(StragglerDetectorTest, NodeOfTwoThatIsSlowerThanItWasIsFound) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const double factor : {1.1, 1.15, 1.2}) {
      for (const int node : {0, 1}) {
        for (const int begin : {60, 300}) {
          SampleJob job = JobOnTwoNodes(seed);
          StragglerDetector detector(Options(), job.ranks);
          job.Play(detector, begin);
          job.Slow({4 * node, 4 * node + 1, 4 * node + 2, 4 * node + 3}, factor);
          job.Play(detector, 400);
          const std::vector<Verdict> found = job.Of(VerdictKind::kNode);
          ASSERT_EQ(found.size(), 1U) << seed << " " << factor << " " << node << " " << begin;
          EXPECT_EQ(found[0].node, node);
          EXPECT_NEAR(found[0].slowdown, factor, 0.05);
          EXPECT_LT(found[0].slowdown_low, found[0].slowdown);
          EXPECT_LE(found[0].step, begin + 300);
          EXPECT_EQ(found[0].episodes, 1) << "it is that node's own";
          EXPECT_EQ(detector.status(4 - 4 * node), RankStatus::kHealthy);
          job.change = nullptr;
          job.Play(detector, 400);
          EXPECT_EQ(detector.status(4 * node), RankStatus::kHealthy);
        }
      }
    }
  }
}

TEST(StragglerDetectorTest, NoNodeOfTwoIsToBlameForWhatRanksOfBothShare) {
  const std::vector<std::vector<int>> slow_ranks = {
      {0, 1, 2, 3, 4, 5, 8, 9},       // Six of one node, and two of the other.
      {0, 1, 2, 3, 4, 5, 6, 8},       // Seven, and one.
      {0, 1, 2, 3, 4},                // Most of a node, and nobody else.
      {2, 3, 8, 9, 10, 11, 12, 15},   // Two, and six.
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}  // All, and two.
  };
  for (const std::vector<int>& slow : slow_ranks) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SampleJob job(16, 8, 1);
      job.random.seed(seed);
      StragglerDetector detector(Options(), job.ranks);
      job.Play(detector, 100);
      job.Slow(slow, 1.3);
      job.Play(detector, 600);
      EXPECT_TRUE(job.Of(VerdictKind::kNode).empty()) << slow.size() << " " << seed;
      EXPECT_TRUE(job.Of(VerdictKind::kPersistent).empty()) << slow.size() << " " << seed;
      EXPECT_FALSE(job.Of(VerdictKind::kGroup).empty()) << slow.size() << " " << seed;
    }
  }
}

TEST(StragglerDetectorTest, NodeOfTwoIsFoundBesideARankThatHasBeenSlowForLong) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SampleJob job = JobOnTwoNodes(seed);
    StragglerDetector detector(Options(), job.ranks);
    job.change = [](StepSample& sample) {
      const bool old = sample.rank == 1 && sample.step >= 100;
      const bool node = sample.rank >= 4 && sample.step >= 400;
      const double slow = old ? 1.3 : node ? 1.2 : 1;
      sample.forward_s *= slow;
      sample.backward_s *= slow;
    };
    job.Play(detector, 900);
    ASSERT_EQ(job.Of(VerdictKind::kNode).size(), 1U) << seed;
    EXPECT_EQ(job.Of(VerdictKind::kNode)[0].node, 1);
  }
}

TEST(StragglerDetectorTest, NodeOfThreeIsFoundAmongRanksThatPause) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SampleJob job(24, 8, 1);
    job.random.seed(seed);
    StragglerDetector detector(Options(), job.ranks);
    job.change = [](StepSample& sample) {
      // One step in 20 of each rank.
      const bool pauses = (sample.step * 7 + sample.rank * 13) % 20 == 0;
      const double slow = (pauses ? 1.5 : 1) * (sample.rank < 8 && sample.step >= 300 ? 1.2 : 1);
      sample.forward_s *= slow;
      sample.backward_s *= slow;
    };
    job.Play(detector, 800);
    ASSERT_EQ(job.Of(VerdictKind::kNode).size(), 1U) << seed;
    EXPECT_EQ(job.Of(VerdictKind::kNode)[0].node, 0);
  }
}

TEST(StragglerDetectorTest, NoNodeOfTwoIsToBlameForWhatBothShareOrTheOtherGained) {
  const auto multiply = [](StepSample& sample, double factor) {
    sample.forward_s *= factor;
    sample.backward_s *= factor;
  };
  const std::vector<std::function<void(StepSample&)>> changes = {
      [](StepSample&) {},
      // Both nodes become slower, one of them a little more.
      [&](StepSample& s) {
        multiply(s, s.step < 300 ? 1 : s.rank < 4 ? 1.185 : 1.15);
      },
      // Sequences get longer, or now longer and now shorter.
      [&](StepSample& s) {
        multiply(s, 1 + 0.5 * std::min(1.0, static_cast<double>(s.step) / 800));
      },
      [&](StepSample& s) { multiply(s, 1 + 0.3 * std::sin(static_cast<double>(s.step) / 60)); },
      // The other node becomes faster.
      [&](StepSample& s) { multiply(s, s.step >= 300 && s.rank >= 4 ? 0.87 : 1); },
      // One node after the other becomes slower.
      [&](StepSample& s) { multiply(s, s.step >= (s.rank < 4 ? 300 : 350) ? 1.15 : 1); },
      // One node was slower from the beginning.
      [&](StepSample& s) { multiply(s, s.rank < 4 ? 1.15 : 1); },
  };
  for (size_t c = 0; c < changes.size(); ++c) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SampleJob job = JobOnTwoNodes(seed);
      job.change = changes[c];
      StragglerDetector detector(Options(), job.ranks);
      job.Play(detector, 1200);
      EXPECT_TRUE(job.Of(VerdictKind::kNode).empty()) << c << " " << seed;
      EXPECT_TRUE(job.Of(VerdictKind::kPersistent).empty()) << c << " " << seed;
    }
  }
}

TEST(StragglerDetectorTest, WhatManyShareOverRestartsIsNobodys) {
  SampleJob job(32, 2, 2);
  StragglerDetector detector(Options(), job.ranks);
  for (int i = 0; i < 5; ++i) {
    job.Play(detector, 40);
    job.Slow({0, 1, 4, 7, 11}, 1.3);  // 5 of 16.
    job.Play(detector, 60);
    job.change = nullptr;
    detector.Restart(job.ranks);
  }
  EXPECT_EQ(job.Of(VerdictKind::kGroup).size(), 5U);
  EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 0U);
  EXPECT_EQ(job.Of(VerdictKind::kNode).size(), 0U);
}

TEST(StragglerDetectorTest, WarmUpAndMaskedStepsAreLeftOut) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(DetectorOptions(), job.ranks);
  EXPECT_EQ(detector.status(0), RankStatus::kWarmingUp);
  job.change = [](StepSample& sample) {
    const bool checkpoint = sample.step % 10 < 6 && sample.step >= 30;
    if (sample.rank == 9 && (sample.step < 20 || checkpoint)) sample.backward_s *= 2;
    sample.masked = checkpoint && sample.rank == 20;  // One masked sample is enough.
  };
  job.Play(detector, 300);
  EXPECT_TRUE(job.verdicts.empty());
  EXPECT_EQ(detector.counts().left_out, 20 + 27 * 6);
  EXPECT_EQ(detector.counts().masked, 27 * 6);
  EXPECT_EQ(detector.status(0), RankStatus::kHealthy);
}

TEST(StragglerDetectorTest, NonsenseIsCountedAndChangesNothing) {
  SampleJob job(16, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  SampleJob clean(16, 1, 1);
  StragglerDetector reference(Options(), clean.ranks);
  clean.Play(reference, 200);
  for (int i = 0; i < 200; ++i) {
    StepSample bad;
    bad.step = job.step;
    bad.rank = 3;
    for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN(), 7200.0,
                                 std::numeric_limits<double>::infinity(), 0.0}) {
      bad.forward_s = seconds;
      detector.Add(bad, job.verdicts);
    }
    bad.forward_s = 1;
    bad.workload = std::numeric_limits<double>::quiet_NaN();
    detector.Add(bad, job.verdicts);
    bad.workload = 0;
    bad.forward_s = bad.backward_s = std::numeric_limits<double>::quiet_NaN();
    detector.Add(bad, job.verdicts);
    bad.forward_s = 1;
    bad.backward_s = std::numeric_limits<double>::infinity();
    detector.Add(bad, job.verdicts);
    bad.backward_s = 0;
    bad.rank = 16;
    detector.Add(bad, job.verdicts);
    bad.rank = -1;
    detector.Add(bad, job.verdicts);
    job.Play(detector, 1);
  }
  EXPECT_EQ(detector.counts().invalid, 200 * 10);
  EXPECT_EQ(detector.counts().taken, reference.counts().taken);
  EXPECT_EQ(detector.counts().rows, reference.counts().rows);
  EXPECT_TRUE(job.verdicts.empty());
}

TEST(StragglerDetectorTest, OrderOfReportsDoesNotMatter) {
  SampleJob job(16, 2, 1);
  StragglerDetector in_order(Options(), job.ranks);
  StragglerDetector by_rank(Options(), job.ranks);
  job.Slow({5}, 1.2);
  std::vector<Verdict> other;
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<StepSample> samples;
    for (int i = 0; i < 20; ++i, ++job.step) {
      for (int rank = 0; rank < 16; ++rank) {
        samples.push_back(job.Sample(rank));
        job.change(samples.back());
        in_order.Add(samples.back(), job.verdicts);
      }
    }
    for (int rank = 0; rank < 16; ++rank) {
      for (const StepSample& sample : samples) {
        if (sample.rank == rank) by_rank.Add(sample, other);
      }
    }
  }
  in_order.Close(job.verdicts);
  by_rank.Close(other);
  ASSERT_EQ(job.verdicts.size(), 2U);
  ASSERT_EQ(other.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(other[i].kind, job.verdicts[i].kind);
    EXPECT_EQ(other[i].step, job.verdicts[i].step);
    EXPECT_EQ(other[i].slowdown, job.verdicts[i].slowdown);
  }
}

TEST(StragglerDetectorTest, TooFewPeersIsNotHealthy) {
  SampleJob job(4, 1, 1);
  StragglerDetector enough(Options(), job.ranks);
  EXPECT_EQ(enough.status(0), RankStatus::kHealthy);
  job.Slow({0}, 2);
  job.Play(enough, 20);
  EXPECT_EQ(enough.status(0), RankStatus::kSuspect);
  SampleJob pairs(8, 2, 2);
  StragglerDetector too_few(Options(), pairs.ranks);
  pairs.Slow({0}, 2);
  pairs.Play(too_few, 200);
  EXPECT_EQ(too_few.status(0), RankStatus::kTooFewPeers) << "two on the other node";
  EXPECT_TRUE(pairs.verdicts.empty());
}

TEST(StragglerDetectorTest, TwoOfTheEightRanksOfTwoNodesAreFound) {
  for (const double factor : {1.1, 1.5, 3.0}) {
    SampleJob job(8, 4, 1);
    StragglerDetector detector(Options(), job.ranks);
    job.Play(detector, 50);
    job.Slow({0, 1}, factor);
    job.Play(detector, 200);
    EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 2U) << factor;
    const auto nodes = job.Of(VerdictKind::kNode);
    ASSERT_EQ(nodes.size(), 1U) << factor;
    EXPECT_EQ(nodes[0].node, 0);
    EXPECT_NEAR(nodes[0].slowdown, factor, 0.02 * factor);
    EXPECT_EQ(job.verdicts.size(), 5U) << "two SUSPECTs, nothing else";
  }
}

TEST(StragglerDetectorTest, PatternWithoutNoiseIsNoTick) {
  SampleJob job(8, 1, 1);
  job.noise = 0;
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) {
    const double seconds = (sample.step % 2 == 0 ? 0.3 : 0.36) * (sample.rank == 0 ? 1.1 : 1);
    sample.forward_s *= seconds;
    sample.backward_s *= seconds;
  };
  job.Play(detector, 300);
  EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 1U);
}

TEST(StragglerDetectorTest, StepsMayHaveGaps) {
  SampleJob job(16, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.Slow({5}, 1.2);
  for (int i = 0; i < 40; ++i) {
    job.Play(detector, 1);
    job.step += 1 + 97 * (i % 3);
  }
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].since_step, 0);
  EXPECT_EQ(detector.counts().rows, 40);
}

}  // namespace
}  // namespace paceline
