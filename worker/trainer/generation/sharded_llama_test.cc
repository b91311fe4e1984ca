// Real trainer processes of a llama in shards (ZeRO): they compute the same as whole models, some
// are lost at chosen places of a step, and their checkpoints are read by other numbers of replicas
// and shards.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

// Each shard of a tensor has a multiple of 16 values, with 2 shards, and so AdamW rounds each alike
// (sharded_parameters_test.cc).
constexpr char kSizes[] = "dim: 32 layers: 2 heads: 4 kv_heads: 2 ffn_dim: 64 vocab_size: 64 ";
constexpr char kAdamW[] = "optimizer { adamw {} learning_rate: 0.01 weight_decay: 0.1 } ";

class ShardedLlamaTest : public RecoveryTest {
 protected:
  void SetUp() override {
    RecoveryTest::SetUp();
    server_ = "worker/trainer/testing/sharded_trainer_server";
    const std::string path = directory_ + "/tokens.u16";
    std::ofstream file(path, std::ios::binary);
    uint16_t token = 1;
    for (int i = 0; i < 4000; ++i) {
      token = static_cast<uint16_t>((5 * token + i % 3) % 64);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
    data_ = absl::StrCat("data { train: '", path,
                         "' sequence_length: 16 token_type: TOKEN_TYPE_UINT16 ");
  }

  std::string Llama(bool recomputes, const std::string& more_data = "") const {
    return absl::StrCat("model { llama { ", kSizes,
                        "checkpoint_activations: ", recomputes ? "true" : "false", " } } ", data_,
                        more_data, "} ", kAdamW);
  }

  // Runs a job, from a checkpoint unless that is empty, and exports its parameters under this name.
  std::unique_ptr<FakeDaemon> Run(int ranks, const std::string& name, const std::string& changes,
                                  const std::string& checkpoint = "") {
    const v1::JobSpec spec = Spec(ranks, absl::StrCat(changes, ExportTo(name)));
    std::unique_ptr<FakeDaemon> daemon = MakeDaemon({"--built-in"});
    daemon->Launch(spec, /*generation=*/1, checkpoint);
    EXPECT_TRUE(daemon->Serve());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    }
    return daemon;
  }

  // Expects two ranks with one model together to compute what two with one each do, bit for bit.
  void ShardAndCompare(const std::string& changes, const std::string& shards = "shards: 2 ") {
    SCOPED_TRACE(absl::StrCat(changes, shards));
    const auto whole = Run(2, "whole", changes);
    const auto sharded = Run(2, "sharded", changes + shards);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(Values(*sharded, rank, "loss"), Values(*whole, rank, "loss"));
      EXPECT_GE(Values(*sharded, rank, "loss").size(), 20u);
    }
    EXPECT_TRUE(Exported("sharded", 0) == Exported("whole", 0));
    EXPECT_FALSE(std::ifstream(ExportedFile("sharded", 1)).good()) << "the first rank's is whole";
  }

  struct Loss {
    std::string faults;  // As sharded_trainer_server takes them.
    std::vector<int> victims;
  };

  // Waits until the trainer has ended, or the loss of another one has cut it off before its place:
  // then it is lost there.
  static void WaitForLoss(FakeDaemon& daemon, int victim) {
    ASSERT_TRUE(daemon.Serve([&] {
      return daemon.ended(victim) || daemon.status(victim).membership().left_generation() > 0;
    })) << daemon.Log(victim);
    if (!daemon.ended(victim)) daemon.Signal(victim, SIGKILL);
    WaitForEnd(daemon, victim);
  }

  // Runs a job of two replicas of two shards once undisturbed, and once with each loss, after which
  // spares take the ranks.
  void LoseAndCompare(const std::string& changes, const std::vector<Loss>& losses) {
    constexpr int kRanks = 4;
    constexpr int kShards = 2;
    const std::string all = absl::StrCat(changes, "steps: 24 shards: ", kShards, " ");
    v1::JobSpec quiet = RecoveringSpec(kRanks, "undisturbed", all);
    quiet.clear_chaos();
    const std::unique_ptr<FakeDaemon> undisturbed = MakeDaemon({"--built-in"});
    undisturbed->Launch(quiet);
    EXPECT_TRUE(undisturbed->Serve());
    for (const Loss& loss : losses) {
      SCOPED_TRACE(loss.faults);
      const std::unique_ptr<FakeDaemon> daemon =
          MakeDaemon({"--built-in", "--faults", loss.faults});
      daemon->Launch(
          RecoveringSpec(kRanks, "disturbed", all, static_cast<int>(loss.victims.size())));
      std::vector<int> trainers{0, 1, 2, 3};
      int spare = kRanks;
      for (const int victim : loss.victims) {
        WaitForLoss(*daemon, victim);
        trainers[static_cast<size_t>(victim)] = spare++;
      }
      daemon->SetMembers({trainers});
      WaitForSuccess(*daemon, trainers);
      ExpectSame(*undisturbed, *daemon, trainers, "disturbed", kShards);
    }
  }

  // Changes: save into a directory of this name after `step` steps, the last ones.
  std::string SaveAt(int step, const std::string& name) const {
    return absl::StrCat("steps: ", step, " checkpoint { directory: '", directory_, "/", name,
                        "' at_end: true } ");
  }
  std::string Checkpoint(int64_t step, const std::string& name) const {
    return absl::StrCat(directory_, "/", name, "/", FakeDaemon::JobId(), "/",
                        CheckpointName({step, /*generation=*/1}));
  }

  std::string data_;  // Without the closing brace.
};

TEST_F(ShardedLlamaTest, ShardsComputeWhatWholeModelsDo) {
  ShardAndCompare(Llama(/*recomputes=*/false));
  ShardAndCompare(Llama(/*recomputes=*/true) + "precision: BF16 ");
}

TEST_F(ShardedLlamaTest, BlocksThatAreGatheredComputeWhatWholeOnesDo) {
  const std::string stage3 = "shards: 2 zero_stage: 3 ";
  ShardAndCompare(Llama(/*recomputes=*/true), stage3);
  ShardAndCompare(Llama(/*recomputes=*/true) + "precision: BF16 ", stage3);
}

// 33 sequences in batches of 4: one rank has five, and the other four.
TEST_F(ShardedLlamaTest, EvaluationsAreThoseOfTheWholeModel) {
  const std::string path = directory_ + "/eval.u16";
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 33 * 16 + 1; ++i) {
      const uint16_t token = static_cast<uint16_t>(i * 7 % 64);
      file.write(reinterpret_cast<const char*>(&token), sizeof(token));
    }
  }
  const std::string evaluated = absl::StrCat(
      Llama(/*recomputes=*/true, absl::StrCat("eval: '", path, "' ")), "evaluation { every: 7 } ");
  ShardAndCompare(evaluated);
  ShardAndCompare(evaluated, "shards: 2 zero_stage: 3 ");
}

TEST_F(ShardedLlamaTest, RanksAreLostAtAnyPlaceOfAStep) {
  LoseAndCompare(Llama(/*recomputes=*/false), {{"7:3:communication1", {3}},
                                               {"7:0:backward1", {0}},
                                               {"7:1:communication2", {1}},
                                               {"7:2:communication3", {2}},
                                               {"7:0:optimizer2", {0}},
                                               {"7:1:ended1", {1}},
                                               {"7:2:backward1,7:3:backward1", {2, 3}},
                                               {"7:0:optimizer2,7:3:communication3", {0, 3}}});
}

TEST_F(ShardedLlamaTest, BlocksThatAreGatheredGoOnExactly) {
  LoseAndCompare(Llama(/*recomputes=*/true) +
                     "zero_stage: 3 accumulation_steps: 2 clip_grad_norm: 0.5 precision: BF16 ",
                 {{"7:1:forward2", {1}}, {"7:0:backward2", {0}}, {"7:3:optimizer2", {3}}});
}

// The replicas average their parameters at every second step.
TEST_F(ShardedLlamaTest, MeansOfParametersGoOnExactly) {
  LoseAndCompare(
      Llama(/*recomputes=*/false) + "strategy { local_sgd { period: 2 } gradient_group_size: 2 } ",
      {{"7:0:backward1", {0}}, {"8:3:communication3", {3}}, {"7:1:ended1", {1}}});
}

TEST_F(ShardedLlamaTest, CheckpointsAreReadByOtherReplicasAndShards) {
  const std::string llama = Llama(/*recomputes=*/true);
  Run(4, "two_by_two", llama + "shards: 2 " + SaveAt(5, "s5"));
  // All steps are done, so it only exports what it has read.
  Run(3, "read", llama + "shards: 3 steps: 5 ", Checkpoint(5, "s5"));
  EXPECT_TRUE(Exported("read", 0) == Exported("two_by_two", 0));
  Run(3, "one_by_three", llama + "shards: 3 zero_stage: 3 " + SaveAt(6, "s6"), Checkpoint(5, "s5"));
  EXPECT_FALSE(Exported("one_by_three", 0) == Exported("two_by_two", 0));
  Run(4, "whole", llama + "steps: 6 ", Checkpoint(6, "s6"));
  EXPECT_TRUE(Exported("whole", 3) == Exported("one_by_three", 0));
  // And back, with the optimizer's state: the same as without a break.
  Run(2, "unbroken", llama + "steps: 9 ", Checkpoint(6, "s6"));
  Run(2, "whole7", llama + SaveAt(7, "s7"), Checkpoint(6, "s6"));
  Run(2, "sharded", llama + "shards: 2 steps: 9 ", Checkpoint(7, "s7"));
  EXPECT_TRUE(Exported("sharded", 0) == Exported("unbroken", 0));
}

TEST_F(ShardedLlamaTest, WeightsAreTakenFromAFile) {
  const std::string llama = Llama(/*recomputes=*/false);
  Run(1, "first", llama + "steps: 3 ");
  const std::string from = absl::StrCat("init_from: '", ExportedFile("first", 0), "' ");
  Run(2, "whole", llama + from);
  Run(2, "sharded", llama + from + "shards: 2 ");
  EXPECT_TRUE(Exported("sharded", 0) == Exported("whole", 0));
}

}  // namespace
}  // namespace paceline
