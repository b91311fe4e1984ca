// Real trainer processes with Slipstream: some are lost, swapped or added during training.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/patterns.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

std::string Strategy(const std::string& mode, int gradient_group_size = 0) {
  return absl::StrCat("strategy { slipstream { mode: SLIPSTREAM_", mode,
                      " window { min_steps: 1 max_steps: 2 max_cap: 8 } } gradient_group_size: ",
                      gradient_group_size, " } log_every: 20 ");
}

class SlipstreamRecoveryTest : public RecoveryTest {
 protected:
  v1::JobSpec Recovering(int ranks, const std::string& changes, int spares = 0,
                         int64_t steps = 400) const {
    return RecoveringSpec(
        ranks, "out",
        absl::StrCat("steps: ", steps, " ", changes, "evaluation { every: 150 } data { eval: '",
                     directory_, "/eval.shard' } "),
        spares);
  }

  std::string FinalWeights(const std::string& name, size_t rank) const {
    return absl::StrCat(directory_, "/", name, "/final.rank", rank, ".safetensors");
  }
  static std::string Bytes(const std::string& path) {
    std::ostringstream bytes;
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file.good()) << path;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static uint64_t StepsOf(const FakeDaemon& daemon, int number) {
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(number));
    EXPECT_TRUE(ring.ok()) << ring.status();
    return ring->Written();
  }

  // Waits until the trainer is in this phase, and still is a moment later.
  static void WaitForPhase(const FakeDaemon& daemon, int number, Phase phase) {
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(number));
    ASSERT_TRUE(ring.ok()) << ring.status();
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    uint64_t written = 0;
    while (ring->Live().phase != phase || std::exchange(written, ring->Written()) == 0 ||
           written != ring->Written()) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(50));
    }
  }

  // Expects these trainers, by rank, to succeed with one common model that has learnt.
  void ExpectGoodEnd(FakeDaemon& daemon, const std::vector<int>& trainers) const {
    WaitForSuccess(daemon, trainers);
    for (size_t rank = 1; rank < trainers.size(); ++rank) {
      EXPECT_TRUE(Bytes(FinalWeights("out", rank)) == Bytes(FinalWeights("out", 0))) << rank;
    }
    for (const int trainer : trainers) {
      EXPECT_EQ(daemon.status(trainer).evaluation().step(), 400);
      EXPECT_GT(daemon.status(trainer).evaluation().accuracy(), 0.9);
    }
  }

  // Kills a rank and lets a spare take over; then kills that one.
  void LoseTwice(const std::string& changes) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Recovering(3, changes, /*spares=*/2));
    WaitUntilReady(*daemon, 3);
    WaitUntilReady(*daemon, 4);
    WaitForSteps(*daemon, 0, 60);
    daemon->Signal(1, SIGKILL);
    WaitForEnd(*daemon, 1);
    daemon->SetMembers({{0, 3, 2}});
    WaitUntilRendezvous(*daemon);
    const int64_t before = daemon->status(2).membership().step();
    EXPECT_GT(before, 0) << "nothing starts over";
    WaitForSteps(*daemon, 3, 20);
    daemon->Signal(0, SIGKILL);
    WaitForEnd(*daemon, 0);
    daemon->SetMembers({{4, 3, 2}});
    ExpectGoodEnd(*daemon, {4, 3, 2});
    EXPECT_GE(daemon->status(4).membership().step(), before);
  }
};

TEST_F(SlipstreamRecoveryTest, FreeGoesOnWithoutALostRank) { LoseTwice(Strategy("FREE")); }

TEST_F(SlipstreamRecoveryTest, DropGoesOnWithoutALostRank) {
  LoseTwice(Strategy("DROP") + "optimizer { adamw {} learning_rate: 0.01 } ");
}

// Ranks 0 and 1, and the remaining one of the other group, form new groups.
TEST_F(SlipstreamRecoveryTest, GroupsThatShareGradientsGoOnAsOthers) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Recovering(4, Strategy("FREE", /*gradient_group_size=*/2)));
  WaitForSteps(*daemon, 0, 60);
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1, 3}});
  ExpectGoodEnd(*daemon, {0, 1, 3});
}

TEST_F(SlipstreamRecoveryTest, FewerRanksGoOn) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Recovering(4, Strategy("FREE")));
  WaitForSteps(*daemon, 0, 60);
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1, 3}});
  ExpectGoodEnd(*daemon, {0, 1, 3});
}

// The victim is suspended until the others wait for it in a collective; then it is killed.
TEST_F(SlipstreamRecoveryTest, ARankIsLostInsideACollective) {
  for (const char* mode : {"SYNC", "DROP", "FREE", "PAUSE"}) {
    SCOPED_TRACE(mode);
    const auto daemon = MakeDaemon();
    daemon->Launch(Recovering(3, Strategy(mode)));
    WaitForSteps(*daemon, 0, 60);
    daemon->Signal(2, SIGSTOP);
    for (const int rank : {0, 1}) WaitForPhase(*daemon, rank, Phase::kRoundWait);
    daemon->Signal(2, SIGKILL);
    WaitForEnd(*daemon, 2);
    daemon->SetMembers({{0, 1}});
    ExpectGoodEnd(*daemon, {0, 1});
  }
}

// A window lasts 64 steps, but a round only a moment.
TEST_F(SlipstreamRecoveryTest, ARankIsLostBetweenRounds) {
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Recovering(3,
                 "strategy { slipstream { mode: SLIPSTREAM_FREE window { min_steps: 64 max_steps: "
                 "64 max_cap: 256 } } } log_every: 20 "));
  WaitForSteps(*daemon, 0, 200);
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1}});
  ExpectGoodEnd(*daemon, {0, 1});
  for (const int rank : {0, 1}) {
    const v1::SlipstreamFigures figures = daemon->status(rank).figures().slipstream();
    EXPECT_EQ(figures.sent_updates(), figures.steps()) << "what was not sent yet is not lost";
  }
}

// The others are done, too, and evaluate: nobody makes another step.
TEST_F(SlipstreamRecoveryTest, ARankIsLostAfterTheLastRound) {
  constexpr int kVictim = 1;
  WritePatterns(directory_ + "/eval.shard", 30000, 3);  // Evaluating this takes a while.
  for (const char* mode : {"SYNC", "DROP", "FREE", "PAUSE"}) {
    SCOPED_TRACE(mode);
    const std::string name = absl::StrCat("out", mode);
    const auto daemon = MakeDaemon();
    daemon->Launch(RecoveringSpec(3, name,
                                  absl::StrCat("steps: 100 ", Strategy(mode), "data { eval: '",
                                               directory_, "/eval.shard' } "),
                                  /*spares=*/1));
    WaitUntilReady(*daemon, 3);
    Release();
    const std::string exported = FinalWeights(name, kVictim);
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).state() == v1::TRAINER_RUNNING; }));
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!std::filesystem::exists(exported) && absl::Now() < deadline) {
      absl::SleepFor(absl::Microseconds(100));
    }
    daemon->Signal(kVictim, SIGKILL);
    WaitForEnd(*daemon, kVictim);
    ASSERT_EQ(daemon->exit_signal(kVictim), SIGKILL) << "it was too late";
    const uint64_t steps = StepsOf(*daemon, 0);
    daemon->SetMembers({{0, 3, 2}});
    WaitForSuccess(*daemon, {0, 3, 2});
    EXPECT_EQ(StepsOf(*daemon, 0), steps);
    EXPECT_EQ(StepsOf(*daemon, 3), 0u);
    EXPECT_EQ(daemon->status(0).evaluation().step(), 100);
    for (const int rank : {1, 2}) {
      EXPECT_TRUE(Bytes(FinalWeights(name, rank)) == Bytes(FinalWeights(name, 0))) << rank;
    }
  }
}

TEST_F(SlipstreamRecoveryTest, ASpareTakesARankByAPlan) {
  for (const char* mode : {"FREE", "DROP"}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Recovering(3, Strategy(mode), /*spares=*/1, /*steps=*/1000000));
    WaitUntilReady(*daemon, 3);
    WaitForSteps(*daemon, 0, 60);
    FakeDaemon::Members members;
    members.trainers = {3, 1, 2};
    members.planned = true;
    daemon->SetMembers(members);
    WaitUntilRendezvous(*daemon);
    for (const int trainer : members.trainers) {
      EXPECT_EQ(daemon->status(trainer).membership().error(), "");
      EXPECT_GT(daemon->status(trainer).membership().step(), 0);
    }
    EXPECT_TRUE(daemon->Serve([&] { return daemon->status(0).membership().waiting(); }));
    WaitForSteps(*daemon, 3, 20);
    for (int trainer = 0; trainer < 4; ++trainer) daemon->Stop(trainer);
    WaitForSuccess(*daemon, {0, 1, 2, 3});
  }
}

TEST_F(SlipstreamRecoveryTest, ARankIsLostWhileAnotherStalls) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Recovering(3,
                            Strategy("FREE") + "allow_chaos: true chaos { rank: 1 step: 30 kind: "
                                               "SLEEP seconds: 2 } ",
                            /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  WaitForSteps(*daemon, 0, 100);
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1, 3}});
  ExpectGoodEnd(*daemon, {0, 1, 3});
}

}  // namespace
}  // namespace paceline
