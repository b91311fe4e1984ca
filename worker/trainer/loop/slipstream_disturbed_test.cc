// Slow, silent and frozen ranks in a Slipstream job, and plan changes at any moment: in real
// trainer processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/patterns.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

class SlipstreamDisturbedTest : public TrainerTest {
 protected:
  static std::string Strategy(const std::string& mode) {
    return absl::StrCat(
        "strategy { slipstream { mode: SLIPSTREAM_", mode,
        " window { min_steps: 1 max_steps: 64 max_cap: 256 } } } allow_chaos: true ");
  }
  // A fault that makes each step longer by `seconds`.
  static std::string Sleep(int rank, double seconds) {
    return absl::StrCat("chaos { rank: ", rank, " kind: SLEEP seconds: ", seconds,
                        " steps: 100000000 } ");
  }
  static v1::SlipstreamFigures Figures(const FakeDaemon& daemon, int rank) {
    return daemon.status(rank).figures().slipstream();
  }
  static void Stop(FakeDaemon& daemon, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) daemon.Stop(rank);
    ASSERT_TRUE(daemon.Serve());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(daemon.exit_code(rank), 0) << daemon.Log(rank);
    }
  }
};

// Only rank 1 has seen its labels.
TEST_F(SlipstreamDisturbedTest, WhatASlowRankLearnsIsNotLost) {
  constexpr int kRanks = 4;
  WriteSortedPatterns(directory_ + "/train.shard", 400, 2, kRanks);
  WritePatterns(directory_ + "/eval.shard", 400, 3);
  const auto accuracy = [&](const std::string& changes) {
    const auto daemon = RunJob(
        Spec(kRanks, absl::StrCat("steps: 300 log_every: 100 data { order: SEQUENTIAL eval: '",
                                  directory_, "/eval.shard' } ", changes, ExportTo("final"))));
    ExpectEqualModels("final", kRanks);
    return daemon->status(0).evaluation().accuracy();
  };
  const double undisturbed = accuracy("");
  EXPECT_GT(undisturbed, 0.95);
  for (const char* mode : {"FREE", "DROP"}) {
    for (const double slowness : {1.5, 4.0}) {
      EXPECT_GT(accuracy(absl::StrCat(Strategy(mode), Sleep(-1, 0.005),
                                      Sleep(1, 0.005 * (slowness - 1)))),
                undisturbed - 0.05)
          << mode << ", " << slowness << " times as slow";
    }
  }
}

TEST_F(SlipstreamDisturbedTest, ARankIsSilentForAHundredRoundsAndBackWithItsWork) {
  constexpr int64_t kSilentStep = 30;
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Spec(4, absl::StrCat("steps: 100000000 log_every: 1 ", Strategy("FREE"), Sleep(-1, 0.002),
                           "chaos { rank: 1 step: ", kSilentStep, " kind: SLEEP seconds: 15 } ")));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(1).state() == v1::TRAINER_RUNNING; }));
  const absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(1));
  ASSERT_TRUE(ring.ok()) << ring.status();
  ASSERT_TRUE(daemon->Serve([&] { return ring->Written() == kSilentStep; }));
  const int64_t rounds = Figures(*daemon, 0).rounds();
  ASSERT_TRUE(daemon->Serve([&] { return Figures(*daemon, 0).rounds() > rounds + 100; }));
  EXPECT_EQ(ring->Written(), kSilentStep) << "the rounds were made without it";
  ASSERT_TRUE(daemon->Serve([&] { return Figures(*daemon, 1).sent_updates() > kSilentStep + 10; }));
  EXPECT_EQ(Figures(*daemon, 1).lost_updates(), 0);
  EXPECT_GT(Figures(*daemon, 1).rounds() - Figures(*daemon, 1).contributions(), 100);
  Stop(*daemon, 4);
}

TEST_F(SlipstreamDisturbedTest, RanksThatFreezeWithTheirCommunicationLoseNothing) {
  constexpr int kRanks = 3;
  for (const char* mode : {"FREE", "DROP", "PAUSE"}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Spec(
        kRanks, absl::StrCat("steps: 600 log_every: 50 ", Strategy(mode), Sleep(-1, 0.002),
                             "data { eval: '", directory_, "/eval.shard' } ", ExportTo("final"))));
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).figures().step() > 0; }));
    for (int i = 0; i < 30; ++i) {
      daemon->Signal(i % kRanks, SIGSTOP);
      absl::SleepFor(absl::Milliseconds(30));
      daemon->Signal(i % kRanks, SIGCONT);
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_TRUE(daemon->Serve());
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
      EXPECT_EQ(Figures(*daemon, rank).lost_updates(), 0);
    }
    ExpectEqualModels("final", kRanks);
    EXPECT_GT(daemon->status(0).evaluation().accuracy(), 0.9) << mode;
  }
}

TEST_F(SlipstreamDisturbedTest, ThePlanChangesTwoHundredTimes) {
  constexpr int kRanks = 3;
  const v1::SlipstreamMode modes[] = {v1::SLIPSTREAM_DROP, v1::SLIPSTREAM_PAUSE,
                                      v1::SLIPSTREAM_SYNC, v1::SLIPSTREAM_FREE};
  const v1::JobSpec spec =
      Spec(kRanks, absl::StrCat("steps: 100000000 log_every: 1000000 ", Strategy("FREE")));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  for (int64_t version = 2; version <= 201; ++version) {
    v1::Strategy strategy = spec.strategy();
    strategy.mutable_slipstream()->set_mode(modes[version * version / 3 % 4]);
    daemon->SetPlan(daemon->MakePlan(version, strategy));
    ASSERT_TRUE(daemon->Serve([&] {
      for (int rank = 0; rank < kRanks; ++rank) {
        if (daemon->status(rank).plan().active_version() != version) return false;
      }
      return true;
    })) << "version "
        << version << "\n"
        << daemon->Log(0);
  }
  Stop(*daemon, kRanks);
}

}  // namespace
}  // namespace paceline
