// Real trainer processes, some of which are lost during training: the others survive, and the job
// computes the same as undisturbed.
#include "worker/trainer/testing/recovery_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Gt;
using testing::Le;

class TrainerRecoveryTest : public RecoveryTest {
 protected:
  struct Loss {
    int ranks = 3;
    std::vector<int> victims = {1};
    uint64_t steps = 50;  // Done by rank 0 before the loss.
    absl::Duration later = absl::ZeroDuration();
    int spares = 1;
    bool own_buffers = false;  // A lost rank's statistics are lost.
  };

  // Runs the job with these changes, kills trainers, gives their ranks to spares and then to new
  // trainers, and compares with the undisturbed job.
  void LoseAndCompare(const std::string& changes, const Loss& loss) {
    const auto undisturbed = RunUndisturbed(loss.ranks, changes);
    LoseAndCompareTo(*undisturbed, changes, loss);
  }

  void LoseAndCompareTo(const FakeDaemon& undisturbed, const std::string& changes,
                        const Loss& loss) {
    const auto daemon = MakeDaemon();
    daemon->Launch(RecoveringSpec(loss.ranks, "disturbed", changes, loss.spares));
    for (int spare = loss.ranks; spare < loss.ranks + loss.spares; ++spare) {
      WaitUntilReady(*daemon, spare);
    }
    WaitForSteps(*daemon, 0, loss.steps);
    absl::SleepFor(loss.later);
    for (const int victim : loss.victims) daemon->Signal(victim, SIGKILL);
    std::vector<int> trainers = First(loss.ranks);
    int spare = loss.ranks;
    for (const int victim : loss.victims) {
      WaitForEnd(*daemon, victim);
      trainers[static_cast<size_t>(victim)] =
          spare < loss.ranks + loss.spares ? spare++ : daemon->Add(2, victim);
    }
    daemon->SetMembers({trainers});
    WaitForSuccess(*daemon, trainers);
    std::vector<int> compared = trainers;
    if (loss.own_buffers) {
      for (const int victim : loss.victims) compared[static_cast<size_t>(victim)] = -1;
    }
    ExpectSame(undisturbed, *daemon, compared, "disturbed");
  }

  static Loss Of(int ranks, const std::vector<int>& victims) {
    Loss loss;
    loss.ranks = ranks;
    loss.victims = victims;
    return loss;
  }

  static std::vector<int> First(int ranks) {
    std::vector<int> trainers;
    for (int rank = 0; rank < ranks; ++rank) trainers.push_back(rank);
    return trainers;
  }

  // Two ranks with copies, of which one is lost: both go back to these, and on as undisturbed.
  void GoBackAndCompare(const std::string& changes) {
    const auto undisturbed = RunUndisturbed(2, changes);
    const auto daemon = MakeDaemon();
    daemon->Launch(RecoveringSpec(2, "disturbed", changes, /*spares=*/1));
    WaitUntilReady(*daemon, 2);
    ASSERT_TRUE(daemon->Serve([&] { return daemon->copies_of() >= 10; }));
    daemon->Signal(1, SIGKILL);
    WaitForEnd(*daemon, 1);
    FakeDaemon::Members members;
    members.trainers = {0, 2};
    members.restores = true;
    daemon->SetMembers(members);
    WaitForSuccess(*daemon, members.trainers);
    ExpectSame(*undisturbed, *daemon, {-1, 2}, "disturbed");
  }
};

TEST_F(TrainerRecoveryTest, ASpareTakesTheRankAndNothingIsLost) { LoseAndCompare("", Of(4, {2})); }

TEST_F(TrainerRecoveryTest, ANewProcessTakesTheRankAndNothingIsLost) {
  Loss loss;
  loss.spares = 0;
  LoseAndCompare("", loss);
}

TEST_F(TrainerRecoveryTest, RankZeroIsReplacedAsAnyOther) { LoseAndCompare("", Of(3, {0})); }

TEST_F(TrainerRecoveryTest, TwoAtOnceAreReplacedBySpareAndNewProcess) {
  LoseAndCompare("optimizer { adamw {} learning_rate: 0.01 } schedule { cosine {} } ",
                 Of(4, {0, 3}));
}

TEST_F(TrainerRecoveryTest, Bfloat16WeightsAndTheirCompensationAreHandedOver) {
  LoseAndCompare("precision: BF16_FULL optimizer { adamw { beta2: 0.95 } learning_rate: 0.01 } ",
                 Of(3, {1}));
}

// In the forward pass, the backward pass, the exchange, and the log's mean.
TEST_F(TrainerRecoveryTest, AtAnyMomentOfAStep) {
  const auto undisturbed = RunUndisturbed(3, "");
  for (int i = 0; i < 6; ++i) {
    Loss loss;
    loss.steps = 20 + 13 * static_cast<uint64_t>(i);
    loss.later = absl::Microseconds(700 * i);
    LoseAndCompareTo(*undisturbed, "", loss);
  }
}

TEST_F(TrainerRecoveryTest, BeforeTheSecondStep) {
  Loss loss;
  loss.steps = 1;
  LoseAndCompare("", loss);
}

TEST_F(TrainerRecoveryTest, AccumulatedAndClippedGradientsGoOnExactly) {
  LoseAndCompare("accumulation_steps: 3 clip_grad_norm: 0.5 steps: 120 ", Loss());
}

TEST_F(TrainerRecoveryTest, MomentumAndStatisticsGoOnExactly) {
  Loss loss;
  loss.steps = 4;
  loss.own_buffers = true;
  LoseAndCompare("model { resnet18 {} } batch_per_rank: 2 steps: 10 ", loss);
}

TEST_F(TrainerRecoveryTest, LlamaGoesOnExactly) {
  const std::string path = directory_ + "/tokens.u16";
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 40000; ++i) {
      const uint16_t token = static_cast<uint16_t>((i * 7919 + i / 13) % 250);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
  }
  LoseAndCompare(absl::StrCat("model { llama { dim: 32 layers: 2 heads: 4 kv_heads: 2 ffn_dim: 64 "
                              "vocab_size: 256 } } data { train: '",
                              path, "' token_type: TOKEN_TYPE_UINT16 sequence_length: 16 } "),
                 Loss());
}

TEST_F(TrainerRecoveryTest, AConnectionThatBreaksIsMadeAnew) {
  const auto undisturbed = RunUndisturbed(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(3, "disturbed", ""));
  for (int round = 1; round <= 3; ++round) {
    WaitForSteps(*daemon, 0, 40 * static_cast<uint64_t>(round));
    daemon->SetMembers({First(3)});
    WaitUntilRendezvous(*daemon);
  }
  WaitForSuccess(*daemon, First(3));
  ExpectSame(*undisturbed, *daemon, First(3), "disturbed");
}

// Counts a process's entries in /proc of a kind ("fd", "task").
size_t CountOf(const FakeDaemon& daemon, int number, const std::string& kind) {
  const std::string path = absl::StrCat("/proc/", daemon.status(number).pid(), "/", kind);
  const std::filesystem::directory_iterator entries(path);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// Waits until a rank has made so many steps more.
void WaitForMoreSteps(const FakeDaemon& daemon, int number, uint64_t steps) {
  absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(number));
  ASSERT_TRUE(ring.ok()) << ring.status();
  const uint64_t until = ring->Written() + steps;
  while (ring->Written() < until) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(TrainerRecoveryTest, GenerationsLeaveNoThreadsAndFilesBehind) {
  constexpr int kGenerations = 20;
  // Those that a rank was about to make, or to end, when they were counted first. What each second
  // generation leaves behind is more.
  constexpr size_t kUnderWay = 4;
  const auto daemon = MakeDaemon();
  daemon->Launch(
      RecoveringSpec(4, "disturbed",
                     "steps: 100000 log_every: 1000 strategy { hsgd { ladder { period: 2 "
                     "size: 2 } ladder { period: 4 size: 4 } } } "));
  std::vector<std::map<std::string, size_t>> after_two(4);
  for (int generation = 2; generation <= kGenerations; ++generation) {
    WaitForSteps(*daemon, 0, 30 * static_cast<uint64_t>(generation));
    daemon->SetMembers({First(4), /*planned=*/generation % 2 == 0});
    WaitUntilRendezvous(*daemon);
    if (generation != 3 && generation != kGenerations) continue;
    // Averages over pairs and over all make some of the threads and connections.
    WaitForMoreSteps(*daemon, 0, 8);
    for (const int rank : First(4)) {
      for (const std::string kind : {"fd", "task"}) {
        if (generation == 3) {
          after_two[static_cast<size_t>(rank)][kind] = CountOf(*daemon, rank, kind);
          continue;
        }
        const size_t most = after_two[static_cast<size_t>(rank)][kind] + kUnderWay;
        // Abandoned threads end a moment later.
        const absl::Time deadline = absl::Now() + absl::Seconds(10);
        while (CountOf(*daemon, rank, kind) > most && absl::Now() < deadline) {
          absl::SleepFor(absl::Milliseconds(10));
        }
        EXPECT_LE(CountOf(*daemon, rank, kind), most) << kind << " of rank " << rank;
      }
    }
  }
}

TEST_F(TrainerRecoveryTest, WhoStoodByForAWhileComesBackWithTheStateOfTheOthers) {
  const std::string steps = "steps: 400 ";
  const auto undisturbed = RunUndisturbed(3, steps);
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(3, "disturbed", steps, /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  WaitForSteps(*daemon, 0, 50);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSteps(*daemon, 0, 200);
  daemon->SetMembers({{0, 1, 2}});
  WaitForSuccess(*daemon, {0, 1, 2});
  ExpectSame(*undisturbed, *daemon, {0, -1, 2}, "disturbed");
}

TEST_F(TrainerRecoveryTest, ASubstituteThatDiesDuringTheRendezvousIsReplacedToo) {
  const auto undisturbed = RunUndisturbed(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(3, "disturbed", "", /*spares=*/2));
  for (const int spare : {3, 4}) WaitUntilReady(*daemon, spare);
  WaitForSteps(*daemon, 0, 50);
  daemon->Signal(1, SIGKILL);
  daemon->Signal(3, SIGSTOP);  // It will not come to the rendezvous.
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).membership().waiting(); }));
  daemon->Signal(3, SIGKILL);
  WaitForEnd(*daemon, 3);
  daemon->SetMembers({{0, 4, 2}});
  WaitForSuccess(*daemon, {0, 4, 2});
  ExpectSame(*undisturbed, *daemon, {0, 4, 2}, "disturbed");
}

// Each pair shares its gradients, and with them what it has given to an average. The loss comes
// before that begins, while it is under way, or when it is taken up.
TEST_F(TrainerRecoveryTest, AnAverageUnderWayIsSentAgain) {
  const std::string changes =
      "steps: 80 optimizer { adamw {} learning_rate: 0.01 } strategy { gradient_group_size: 2 "
      "hsgd { ladder { period: 8 size: 4 outer { kind: OUTER_NESTEROV learning_rate: 0.7 "
      "momentum: 0.9 fragments: 2 delay: 2 alpha: 0.5 } } } } ";
  const auto undisturbed = RunUndisturbed(4, changes);
  for (uint64_t step = 40; step < 44; ++step) {
    Loss loss = Of(4, {1});
    loss.steps = step;
    LoseAndCompareTo(*undisturbed, changes, loss);
  }
}

constexpr char kInt4[] =
    "format: WIRE_FORMAT_INT4 outer { kind: OUTER_NESTEROV learning_rate: 0.7 "
    "momentum: 0.9 alpha: 0.5 ";

// Each rank sends again what it had, with the rounding errors that it had, whether the average was
// before or after its turn.
TEST_F(TrainerRecoveryTest, AnAverageOfInt4IsSentAgainToTheBit) {
  const std::string changes = absl::StrCat(
      "steps: 300 strategy { gradient_group_size: 1 hsgd { ladder { period: 8 size: 3 ", kInt4,
      "fragments: 2 delay: 3 } } } } ");
  const auto undisturbed = RunUndisturbed(3, changes);
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(3, "disturbed", changes));
  for (uint64_t steps = 40; steps < 110; steps += 21) {
    WaitForSteps(*daemon, 0, steps);
    daemon->SetMembers({First(3)});
    WaitUntilRendezvous(*daemon);
  }
  WaitForSuccess(*daemon, First(3));
  ExpectSame(*undisturbed, *daemon, First(3), "disturbed");
}

// The first average is under way, so that the lost rank has no rounding errors yet. What it has
// given is that of the rank that it shares gradients with.
TEST_F(TrainerRecoveryTest, WhoTakesARankGivesTheSameToTheFirstAverageOfInt4) {
  const std::string changes = absl::StrCat(
      "steps: 80 strategy { gradient_group_size: 2 hsgd { ladder { period: 24 size: 4 ", kInt4,
      "delay: 20 } } } } ");
  const auto undisturbed = RunUndisturbed(4, changes);
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(4, "disturbed",
                                changes + "chaos { rank: 1 step: 5 kind: KILL generation: 1 } ",
                                /*spares=*/1));
  WaitForEnd(*daemon, 1);
  WaitUntilReady(*daemon, 4);
  daemon->SetMembers({{0, 4, 2, 3}});
  WaitForSuccess(*daemon, {0, 4, 2, 3});
  ExpectSame(*undisturbed, *daemon, {0, 4, 2, 3}, "disturbed");
}

// Averages begin after steps 1, 5, 9, … and are taken up after 3, 7, 11, …. A rank ends before it
// has given to that of step 25: the others have done step 27, after which a save is due, and wait
// for the average. That save is made after the next one, by all.
TEST_F(TrainerRecoveryTest, ASaveThatWasDueWhenAnAverageWasCutOffIsMadeAfterTheNext) {
  const std::string out = directory_ + "/out";
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(
      3, "disturbed",
      absl::StrCat("steps: 60 strategy { gradient_group_size: 1 hsgd { ladder { period: 8 size: 3 "
                   "outer { kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 fragments: 2 "
                   "delay: 2 alpha: 0.5 } } } } checkpoint { directory: '",
                   out, "' every_steps: 27 at_end: false when_busy: WHEN_BUSY_WAIT } ",
                   "chaos { rank: 1 step: 24 kind: KILL generation: 1 } "),
      /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  ASSERT_TRUE(daemon->Serve([&] {
    return daemon->status(0).membership().waiting() && daemon->status(2).membership().waiting();
  }));
  for (const int rank : {0, 2}) EXPECT_EQ(daemon->status(rank).membership().step(), 27);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  const auto found = SettleCheckpoints(absl::StrCat(out, "/", FakeDaemon::JobId()), 2);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<int64_t> saved;
  for (const CompleteCheckpoint& one : *found) saved.push_back(one.step);
  EXPECT_THAT(saved, ElementsAre(31, 55)) << "those of steps 27 and 54";
}

// The spare, which has no state, takes that of the other rank, which has not trained yet.
TEST_F(TrainerRecoveryTest, NoSaveIsDueBecauseARankIsLostBeforeAResumedJobGoesOn) {
  const std::string out = directory_ + "/out";
  const std::string changes = absl::StrCat("steps: 30 checkpoint { directory: '", out,
                                           "' every_steps: 20 at_end: false when_busy: "
                                           "WHEN_BUSY_WAIT } ");
  RunUndisturbed(2, changes);
  const std::string job = absl::StrCat(out, "/", FakeDaemon::JobId());
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(2, "disturbed", changes, /*spares=*/1), /*generation=*/2,
                 absl::StrCat(job, "/", CheckpointName({20, 1})));
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  WaitUntilReady(*daemon, 2);
  FakeDaemon::Members members;
  members.trainers = {0, 2};
  daemon->SetMembers(members);
  WaitForSuccess(*daemon, members.trainers);
  EXPECT_EQ(Losses(*daemon, 2).count(21), 1U);
  const auto found = SettleCheckpoints(job, 3);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<int64_t> saved;
  for (const CompleteCheckpoint& one : *found) saved.push_back(one.step);
  EXPECT_THAT(saved, ElementsAre(20)) << "the next one is due after step 40";
}

// Each rank has parameters of its own, so nobody else has what the lost one had: with int8, its
// rounding errors too. Point and momentum of an outer step go back with them, and what a rank has
// given to an average under way.
TEST_F(TrainerRecoveryTest, ARankAloneInItsGroupIsReplacedFromItsCopy) {
  const std::string alone = "ladder { period: 2 size: 1 } ";
  for (const std::string& ladder :
       {alone + "ladder { period: 4 size: 2 } ",
        alone + "ladder { period: 4 size: 2 format: WIRE_FORMAT_INT8 } ",
        alone + "ladder { period: 4 size: 2 format: WIRE_FORMAT_INT8 outer { kind: OUTER_NESTEROV "
                "learning_rate: 0.7 momentum: 0.9 } } ",
        alone + "ladder { period: 4 size: 2 outer { kind: OUTER_SLOWMO learning_rate: 1 "
                "momentum: 0.5 } } ",
        std::string("ladder { period: 8 size: 2 outer { kind: OUTER_NESTEROV learning_rate: 0.7 "
                    "momentum: 0.9 fragments: 2 delay: 3 alpha: 0.5 } } "),
        std::string("ladder { period: 8 size: 2 format: WIRE_FORMAT_INT4 outer { kind: "
                    "OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 fragments: 2 delay: 3 alpha: "
                    "0.5 } } ")}) {
    SCOPED_TRACE(ladder);
    const std::string changes =
        absl::StrCat("steps: 80 strategy { gradient_group_size: 1 hsgd { ", ladder,
                     "} } optimizer { adamw {} learning_rate: 0.01 } "
                     "recovery { copy_every_steps: 5 } ");
    GoBackAndCompare(changes);
  }
}

// The save after step 22 begins after 25, with a mean of all. The controller knows of no complete
// checkpoint when all go back to copies of step 30 or later.
TEST_F(TrainerRecoveryTest, ASaveThatWasNotCompleteIsMadeAgainAfterAReturnToCopies) {
  const std::string out = directory_ + "/out";
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(
      2, "disturbed",
      absl::StrCat("steps: 80 strategy { gradient_group_size: 1 hsgd { ladder { period: 2 size: 1 "
                   "} ladder { period: 4 size: 2 } } } recovery { copy_every_steps: 5 } checkpoint "
                   "{ directory: '",
                   out, "' every_steps: 22 at_end: false when_busy: WHEN_BUSY_WAIT } "),
      /*spares=*/1));
  WaitUntilReady(*daemon, 2);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->copies_of() >= 30; }));
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  FakeDaemon::Members members;
  members.trainers = {0, 2};
  members.restores = true;
  members.saved_step = 0;
  daemon->SetMembers(members);
  const int64_t back_at = daemon->copies_of();
  WaitForSuccess(*daemon, members.trainers);
  const auto found = SettleCheckpoints(absl::StrCat(out, "/", FakeDaemon::JobId()), 2);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<int64_t> saved;
  for (const CompleteCheckpoint& one : *found) {
    if (one.generation == 2) saved.push_back(one.step);
  }
  EXPECT_THAT(saved, Contains(AllOf(Gt(back_at), Le(back_at + 4))))
      << "at the first mean of all, and not an interval later";
}

// Copies have what quantised gradients have still to send, of each rank.
TEST_F(TrainerRecoveryTest, QuantisedGradientsGoOnFromCopies) {
  const std::string changes =
      "steps: 80 gradient_format: WIRE_FORMAT_INT8 optimizer { adamw {} learning_rate: 0.01 } "
      "strategy { warmup_steps: 60 gradient_group_size: 1 hsgd { ladder { period: 4 size: 2 } } } "
      "recovery { copy_every_steps: 5 } ";
  GoBackAndCompare(changes);
}

}  // namespace
}  // namespace paceline
