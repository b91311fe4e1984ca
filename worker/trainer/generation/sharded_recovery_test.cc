// Real trainer processes of a model in shards, some of which are lost at chosen places of a step:
// the job computes the same as undisturbed.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

class ShardedRecoveryTest : public RecoveryTest {
 protected:
  struct Loss {
    std::string faults;  // As sharded_trainer_server takes them.
    std::vector<int> victims;
  };

  void SetUp() override {
    RecoveryTest::SetUp();
    server_ = "worker/trainer/testing/sharded_trainer_server";
  }

  // Waits until the trainer has ended, or the loss of another one has cut it off before its place:
  // then it is lost there.
  static void WaitForLoss(FakeDaemon& daemon, int victim) {
    ASSERT_TRUE(daemon.Serve([&] {
      return daemon.ended(victim) || daemon.status(victim).membership().left_generation() > 0;
    })) << daemon.Log(victim);
    if (!daemon.ended(victim)) daemon.Signal(victim, SIGKILL);
    WaitForEnd(daemon, victim);
  }

  // Runs the job once undisturbed, and once with each loss, after which spares take the ranks.
  void LoseAndCompare(int replicas, int shards, const std::vector<Loss>& losses,
                      const std::string& more = "") {
    const int ranks = replicas * shards;
    const std::string changes = absl::StrCat(
        "shards: ", shards, " steps: 24 optimizer { adamw {} learning_rate: 0.01 } ", more);
    const std::unique_ptr<FakeDaemon> undisturbed = RunUndisturbed(ranks, changes);
    for (const Loss& loss : losses) {
      SCOPED_TRACE(loss.faults);
      const std::unique_ptr<FakeDaemon> daemon = MakeDaemon({"--faults", loss.faults});
      daemon->Launch(
          RecoveringSpec(ranks, "disturbed", changes, static_cast<int>(loss.victims.size())));
      std::vector<int> trainers;
      for (int rank = 0; rank < ranks; ++rank) trainers.push_back(rank);
      int spare = ranks;
      for (const int victim : loss.victims) {
        WaitForLoss(*daemon, victim);
        trainers[static_cast<size_t>(victim)] = spare++;
      }
      daemon->SetMembers({trainers});
      WaitForSuccess(*daemon, trainers);
      ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
    }
  }
};

TEST_F(ShardedRecoveryTest, AtAnyPlaceOfAStep) {
  LoseAndCompare(2, 2,
                 {{"7:3:gather", {3}},
                  {"7:0:scatter", {0}},
                  {"7:1:mean", {1}},
                  {"7:2:word", {2}},
                  {"7:0:heard", {0}},
                  {"7:1:updated", {1}}});
}

TEST_F(ShardedRecoveryTest, AtAnyPlaceOfAStepOfThreeReplicas) {
  LoseAndCompare(3, 2,
                 {{"7:5:gather", {5}}, {"7:2:scatter", {2}}, {"7:0:mean", {0}}, {"7:4:word", {4}}});
}

// Rank 3, and with six ranks others too, has done the step; the rest was prepared for it.
TEST_F(ShardedRecoveryTest, WithinTheWord) {
  LoseAndCompare(
      2, 2, {{"7:1:heard,7:0:deaf,7:2:deaf", {1}}, {"7:1:heard,7:0:deaf,7:2:deaf,7:3:deaf", {1}}});
}

TEST_F(ShardedRecoveryTest, WithinTheWordOfThreeReplicas) {
  LoseAndCompare(3, 2, {{"7:2:heard,7:0:deaf,7:5:deaf", {2}}});
}

TEST_F(ShardedRecoveryTest, AWholeReplicaAndPositionsOfTwoAreReplaced) {
  LoseAndCompare(3, 2,
                 {{"7:2:scatter,7:3:scatter", {2, 3}},
                  {"7:1:word,7:4:word", {1, 4}},
                  {"7:0:updated,7:3:heard", {0, 3}}});
}

TEST_F(ShardedRecoveryTest, ClippedAndAccumulatedGradientsGoOnExactly) {
  LoseAndCompare(2, 2,
                 {{"7:2:word", {2}}, {"7:1:heard", {1}}, {"7:1:heard,7:0:deaf,7:2:deaf", {1}}},
                 "accumulation_steps: 2 clip_grad_norm: 0.5 ");
}

// The one replica has lost a part of the model: all go back to the copies of their states.
TEST_F(ShardedRecoveryTest, OneReplicaGoesBackToItsCopies) {
  const std::string changes =
      "shards: 2 steps: 40 optimizer { adamw {} learning_rate: 0.01 } "
      "recovery { copy_every_steps: 5 } ";
  const std::unique_ptr<FakeDaemon> undisturbed = RunUndisturbed(2, changes);
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(2, "disturbed", changes, /*spares=*/2));
  for (const int spare : {2, 3}) WaitUntilReady(*daemon, spare);
  FakeDaemon::Members members;
  members.trainers = {0, 1};
  members.restores = true;
  for (const int victim : {1, 0}) {
    const int64_t before = daemon->copies_of();
    ASSERT_TRUE(daemon->Serve([&] { return daemon->copies_of() > before; }));
    daemon->Signal(victim, SIGKILL);
    WaitForEnd(*daemon, victim);
    members.trainers[static_cast<size_t>(victim)] = victim + 2;
    daemon->SetMembers(members);
    WaitUntilRendezvous(*daemon);
  }
  WaitForSuccess(*daemon, members.trainers);
  EXPECT_NE(daemon->Log(3).find("went back to the copy of seat=1"), std::string::npos);
  // Rank 1 has made steps twice.
  ExpectSame(*undisturbed, *daemon, {2, -1}, "disturbed");
}

// The replicas share gradients, and average their parameters at every second step.
TEST_F(ShardedRecoveryTest, WithMeansOfParameters) {
  LoseAndCompare(2, 2,
                 {{"7:0:scatter", {0}}, {"8:3:updated", {3}}, {"7:1:heard,7:0:deaf,7:2:deaf", {1}}},
                 "strategy { local_sgd { period: 2 } gradient_group_size: 2 } ");
}

// The first mean as int8 comes at the ninth step: a newcomer after it would lack rounding errors
// that are still to be sent.
TEST_F(ShardedRecoveryTest, WithMeansOfParametersAsInt8) {
  LoseAndCompare(2, 2,
                 {{"7:0:scatter", {0}}, {"8:3:updated", {3}}, {"7:1:heard,7:0:deaf,7:2:deaf", {1}}},
                 "strategy { hsgd { ladder { period: 2 size: 1 } ladder { period: 8 size: 2 "
                 "format: WIRE_FORMAT_INT8 } } warmup_steps: 2 gradient_group_size: 2 } ");
}

}  // namespace
}  // namespace paceline
