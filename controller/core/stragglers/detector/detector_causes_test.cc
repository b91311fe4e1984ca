// Why a rank is slow, and when it is not the rank.
#include <gtest/gtest.h>

#include <cmath>

#include "controller/core/stragglers/detector/detector.h"
#include "controller/core/stragglers/detector/testing/sample_job.h"

namespace paceline {
namespace {

DetectorOptions Options() {
  DetectorOptions options;
  options.warm_up_steps = 0;
  return options;
}

TEST(DetectorCausesTest, WaitingForData) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.change = [](StepSample& sample) {
    if (sample.rank == 20) sample.data_wait_s += 0.2;
  };
  job.Play(detector, 100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].rank, 20);
  EXPECT_EQ(job.verdicts[0].cause, StragglerCause::kData);
  EXPECT_NEAR(job.verdicts[0].slowdown, 1.2, 0.02);
}

TEST(DetectorCausesTest, WaitThatNobodyElseTellsIsNone) {
  SampleJob job(8, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) { sample.data_wait_s = sample.rank == 5 ? 0.1 : NAN; };
  job.Play(detector, 400);
  EXPECT_TRUE(job.verdicts.empty());
  EXPECT_EQ(detector.counts().taken, 8 * 400);
}

TEST(DetectorCausesTest, WaitEndsWhenNobodyWaitsAnyLonger) {
  SampleJob job(8, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) {
    sample.data_wait_s = sample.rank == 5 && sample.step >= 50 && sample.step < 80 ? 0.2 : 0;
  };
  job.Play(detector, 200);
  EXPECT_EQ(job.Of(VerdictKind::kSuspect).size(), 1U);
  EXPECT_EQ(job.Of(VerdictKind::kTransient).size(), 1U);
}

TEST(DetectorCausesTest, ForwardAloneIsNoHostPauseWhereBackwardIsNotKnown) {
  for (const double backward_s : {0.0, static_cast<double>(NAN)}) {
    SampleJob job(8, 1, 1);
    StragglerDetector detector(Options(), job.ranks);
    job.change = [&](StepSample& sample) {
      sample.backward_s = backward_s;
      if (sample.rank == 5 && sample.step >= 50) sample.forward_s *= 1.3;
    };
    job.Play(detector, 200);
    ASSERT_EQ(job.verdicts.size(), 2U) << backward_s;
    EXPECT_EQ(job.verdicts[1].rank, 5);
    EXPECT_EQ(job.verdicts[1].cause, StragglerCause::kCompute);
    EXPECT_NEAR(job.verdicts[1].slowdown, 1.3, 0.02);
  }
}

TEST(DetectorCausesTest, HostPausesAreInForwardOnly) {
  SampleJob job(32, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.change = [&](StepSample& sample) {
    if (sample.rank == 20) sample.forward_s += 0.2 + 0.2 * std::abs(job.normal(job.random));
  };
  job.Play(detector, 100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].cause, StragglerCause::kHostPause);
}

// On a GPU, the wait for this rank hides the pauses of its peers.
TEST(DetectorCausesTest, PauseOfManyTimesTheWorkIsFound) {
  SampleJob job(4, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.change = [](StepSample& sample) {
    if (sample.rank == 2) sample.forward_s += 20;
  };
  job.Play(detector, 200);
  ASSERT_EQ(job.verdicts.size(), 2U);
  EXPECT_EQ(job.verdicts[1].kind, VerdictKind::kPersistent);
  EXPECT_EQ(job.verdicts[1].rank, 2);
  EXPECT_EQ(job.verdicts[1].cause, StragglerCause::kHostPause);
  EXPECT_NEAR(job.verdicts[1].slowdown, 21, 0.5);
}

TEST(DetectorCausesTest, LongSequencesAreNoStragglerWhenTheirWorkIsKnown) {
  SampleJob job(64, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [&](StepSample& sample) {
    sample.workload = 1e6 * std::exp(0.13 * job.normal(job.random));
    if (sample.rank == 7) sample.workload *= 2;
    sample.forward_s *= sample.workload / 1e6;
    sample.backward_s *= sample.workload / 1e6;
    if (sample.rank == 40 && sample.step >= 100) sample.backward_s *= 1.2;
  };
  job.Play(detector, 110);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].rank, 40);
  EXPECT_EQ(job.verdicts[0].cause, StragglerCause::kCompute);
}

TEST(DetectorCausesTest, WorkThatTimesFollowInPartOnlyAccusesNobody) {
  for (const double work : {0.8, 1.25}) {
    SampleJob job(8, 1, 1);
    StragglerDetector detector(Options(), job.ranks);
    job.change = [&](StepSample& sample) {
      sample.workload = 1000 * (sample.rank == 3 ? work : 1);
      const double seconds = 0.5 + 0.5 * sample.workload / 1000;
      sample.forward_s *= seconds * (sample.rank == 6 && sample.step >= 300 ? 1.1 : 1);
      sample.backward_s *= seconds * (sample.rank == 6 && sample.step >= 300 ? 1.1 : 1);
    };
    job.Play(detector, 300);
    EXPECT_TRUE(job.verdicts.empty()) << work;
    job.Play(detector, 200);
    const auto persistent = job.Of(VerdictKind::kPersistent);
    ASSERT_EQ(persistent.size(), 1U);
    EXPECT_EQ(persistent[0].rank, 6);
  }
}

TEST(DetectorCausesTest, LongSequencesAreNoStragglerWhenTheirWorkIsNotKnown) {
  SampleJob job(64, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [&](StepSample& sample) {
    const double work = std::exp(0.13 * job.normal(job.random));
    sample.forward_s *= work;
    sample.backward_s *= work;
  };
  job.Play(detector, 2000);
  EXPECT_TRUE(job.verdicts.empty());
}

TEST(DetectorCausesTest, EndIsToldWhenBothCausesAreOver) {
  const auto play = [](int64_t waits_from, int64_t waits_to, int64_t slow_to) {
    SampleJob job(8, 1, 1);
    StragglerDetector detector(Options(), job.ranks);
    job.change = [=](StepSample& sample) {
      if (sample.rank != 3) return;
      if (sample.step >= 50 && sample.step < slow_to) sample.backward_s *= 1.5;
      if (sample.step >= waits_from && sample.step < waits_to) sample.data_wait_s = 0.3;
    };
    job.Play(detector, 800);
    std::vector<VerdictKind> kinds;
    for (const Verdict& verdict : job.verdicts) kinds.push_back(verdict.kind);
    return kinds;
  };
  using K = VerdictKind;
  EXPECT_EQ(play(300, 340, 800), (std::vector<K>{K::kSuspect, K::kPersistent, K::kSuspect}));
  EXPECT_EQ(play(300, 340, 500),
            (std::vector<K>{K::kSuspect, K::kPersistent, K::kSuspect, K::kRecovered}));
  EXPECT_EQ(play(380, 480, 300),
            (std::vector<K>{K::kSuspect, K::kPersistent, K::kSuspect, K::kRecovered}));
  EXPECT_EQ(play(100, 160, 120), (std::vector<K>{K::kSuspect, K::kSuspect, K::kTransient}));
}

TEST(DetectorCausesTest, NodeIsToldAgainAfterFewerThanTwoOfItsRanksWereSlow) {
  SampleJob job(24, 6, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.Slow({0, 1}, 1.3);
  job.Play(detector, 200);
  job.Slow({0, 1, 5}, 1.3);
  job.Play(detector, 30);
  job.Slow({0, 1}, 1.3);
  job.Play(detector, 100);
  EXPECT_EQ(job.Of(VerdictKind::kTransient).size(), 1U);
  EXPECT_EQ(job.Of(VerdictKind::kNode).size(), 1U) << "two are slow all the time";
  job.Slow({0}, 1.3);
  job.Play(detector, 200);
  job.Slow({0, 1}, 1.3);
  job.Play(detector, 200);
  EXPECT_EQ(job.Of(VerdictKind::kNode).size(), 2U);
}

TEST(DetectorCausesTest, RanksOfANodeAreOneTrouble) {
  SampleJob job(64, 4, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Slow({8, 9, 10, 11}, 1.2);
  job.Play(detector, 300);
  EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 4U);
  const auto nodes = job.Of(VerdictKind::kNode);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].node, 2);
  EXPECT_EQ(nodes[0].rank, -1);
  EXPECT_EQ(nodes[0].peer_group, 0);
  EXPECT_NEAR(nodes[0].slowdown, 1.2, 0.02);
}

TEST(DetectorCausesTest, ManySlowPeersAreAnEventOfTheGroup) {
  SampleJob job(32, 1, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.Slow({0, 1, 2, 3, 4}, 1.3);  // 5 of 16.
  job.Play(detector, 400);
  const auto groups = job.Of(VerdictKind::kGroup);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].peer_group, 0);
  EXPECT_NEAR(groups[0].slowdown, 1.3, 0.03);
  EXPECT_EQ(job.Of(VerdictKind::kSuspect).size(), 5U);
  EXPECT_TRUE(job.Of(VerdictKind::kPersistent).empty());
  job.Slow({0, 1, 2, 3}, 1.3);  // The event is over, and these are few.
  job.Play(detector, 200);
  EXPECT_EQ(job.Of(VerdictKind::kPersistent).size(), 4U);
}

TEST(DetectorCausesTest, AllSlowAtOnceIsAnEventOfTheJob) {
  SampleJob job(32, 4, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 50);
  job.change = [](StepSample& sample) {
    sample.forward_s *= 1.3;
    sample.backward_s *= 1.3;
  };
  job.Play(detector, 100);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].kind, VerdictKind::kGroup);
  EXPECT_EQ(job.verdicts[0].since_step, 50);
  EXPECT_LE(job.verdicts[0].step, 60);
  EXPECT_NEAR(job.verdicts[0].slowdown, 1.3, 0.03);
  EXPECT_LT(job.verdicts[0].slowdown_low, job.verdicts[0].slowdown_high);
  EXPECT_NEAR(job.verdicts[0].lost_share, 0.3 / 1.3, 0.02);
}

TEST(DetectorCausesTest, JobThatGetsFasterIsNoEvent) {
  SampleJob job(8, 1, 1);
  StragglerDetector detector(Options(), job.ranks);
  job.Play(detector, 200);
  job.Slow({0, 1, 2, 3, 4, 5, 6, 7}, 0.8);
  job.Play(detector, 300);
  EXPECT_TRUE(job.verdicts.empty());
}

TEST(DetectorCausesTest, SlowStageIsImbalance) {
  SampleJob job(32, 2, 4);
  StragglerDetector detector(Options(), job.ranks);
  job.change = [](StepSample& sample) {
    if (sample.rank >= 24) sample.backward_s *= 2;
  };
  job.Play(detector, 500);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].kind, VerdictKind::kGroup);
  EXPECT_EQ(job.verdicts[0].peer_group, 3);
  EXPECT_EQ(job.verdicts[0].cause, StragglerCause::kImbalance);
  EXPECT_NEAR(job.verdicts[0].slowdown, 1.65, 0.02);
  EXPECT_EQ(job.verdicts[0].since_step, 0);
}

TEST(DetectorCausesTest, SlowerOneOfTwoStagesIsImbalance) {
  SampleJob job(16, 1, 2);
  StragglerDetector detector(Options(), job.ranks);
  job.Slow({8, 9, 10, 11, 12, 13, 14, 15}, 1.6);
  job.Play(detector, 300);
  ASSERT_EQ(job.verdicts.size(), 1U);
  EXPECT_EQ(job.verdicts[0].kind, VerdictKind::kGroup);
  EXPECT_EQ(job.verdicts[0].peer_group, 1);
  EXPECT_EQ(job.verdicts[0].cause, StragglerCause::kImbalance);
  EXPECT_NEAR(job.verdicts[0].slowdown, 1.6, 0.02);
}

}  // namespace
}  // namespace paceline
