// Checkpoints of real trainer processes: a job that resumes computes the same as one without a
// break.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/saving_test.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public SavingTest {
 protected:
  // Runs a job of 20 steps in one piece, and again from its checkpoint after `step`: all ranks must
  // report the same losses and gradients, digit for digit.
  void ExpectSameAfter(int64_t step, int ranks, const std::string& changes,
                       const std::string& directory = "whole") {
    const v1::JobSpec spec =
        Spec(ranks, changes + SaveTo(directory, "every_steps: 1 when_busy: WHEN_BUSY_WAIT"));
    const auto whole = RunJob(spec);
    ExpectSameFrom(*whole, spec, step, directory);
  }
  void ExpectSameFrom(const FakeDaemon& whole, const v1::JobSpec& spec, int64_t step,
                      const std::string& directory) {
    v1::JobSpec again = spec;
    again.mutable_checkpoint()->set_directory(directory_ + "/again");
    const auto resumed = Resume(again, Checkpoint(directory, step));
    for (int rank = 0; rank < spec.ranks(); ++rank) {
      for (const char* key : {"loss", "grad_norm", "lr"}) {
        std::vector<double> expected = Values(whole, rank, key);
        ASSERT_GE(expected.size(), 20u);
        expected.resize(20);  // Without those of evaluations.
        expected.erase(expected.begin(), expected.begin() + step);
        std::vector<double> values = Values(*resumed, rank, key);
        values.resize(expected.size());
        EXPECT_EQ(values, expected) << key << " of rank " << rank;
      }
    }
  }
};

constexpr char kAdamW[] = "optimizer { adamw {} learning_rate: 0.01 } schedule { cosine {} } ";

constexpr char kFullBf16[] =
    "precision: BF16_FULL optimizer { adamw { beta2: 0.95 } learning_rate: 0.01 } ";

TEST_F(ResumeTest, OneRankGoesOnExactly) { ExpectSameAfter(7, 1, kAdamW); }

TEST_F(ResumeTest, FourRanksGoOnExactly) { ExpectSameAfter(11, 4, kAdamW); }

TEST_F(ResumeTest, MomentumAndStatisticsGoOnExactly) {
  ExpectSameAfter(
      3, 2,
      absl::StrCat("model { resnet18 {} } batch_per_rank: 2 evaluation { every: 5 } data { eval: '",
                   directory_, "/eval.shard' } "));
}

// A third of a number is not exact: losses must agree in a process's first steps and in later ones.
TEST_F(ResumeTest, AccumulationGoesOnExactly) {
  const v1::JobSpec spec = Spec(3, "accumulation_steps: 3 clip_grad_norm: 0.5 " +
                                       SaveTo("whole", "every_steps: 1 when_busy: WHEN_BUSY_WAIT"));
  const auto whole = RunJob(spec);
  for (const int64_t step : {1, 2, 9}) ExpectSameFrom(*whole, spec, step, "whole");
}

// Saves are made where all ranks are equal: in the warm-up, and after the global means.
TEST_F(ResumeTest, HierarchicalSgdGoesOnExactly) {
  const v1::JobSpec spec =
      Spec(4, absl::StrCat(kAdamW,
                           "strategy { warmup_steps: 3 gradient_group_size: 2 hsgd { "
                           "ladder { period: 2 size: 2 } ladder { period: 4 size: 4 } } } ",
                           SaveTo("whole", "every_steps: 1 when_busy: WHEN_BUSY_WAIT")));
  const auto whole = RunJob(spec);
  std::vector<int64_t> saved;
  const auto found = SettleCheckpoints(JobDirectory("whole"), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const CompleteCheckpoint& one : *found) saved.push_back(one.step);
  EXPECT_THAT(saved, ElementsAre(1, 2, 3, 5, 9, 13, 17, 20)) << "what is due at the end is saved";
  for (const int64_t step : {2, 3, 5, 13}) ExpectSameFrom(*whole, spec, step, "whole");
}

TEST_F(ResumeTest, Int8AveragesGoOnExactly) {
  ExpectSameAfter(9, 4,
                  "strategy { hsgd { ladder { period: 2 size: 2 } ladder { period: 4 size: 4 "
                  "format: WIRE_FORMAT_INT8 } } } ");
}

TEST_F(ResumeTest, QuantisedGradientsGoOnExactly) {
  ExpectSameAfter(11, 4, absl::StrCat(kAdamW, "gradient_format: WIRE_FORMAT_INT8 "), "int8");
  ExpectSameAfter(
      7, 2, "gradient_format: WIRE_FORMAT_FP8 accumulation_steps: 3 clip_grad_norm: 0.5 ", "fp8");
}

TEST_F(ResumeTest, AveragesInOtherFormatsGoOnExactly) {
  for (const char* format : {"FP8", "BF16"}) {
    ExpectSameAfter(
        9, 4,
        absl::StrCat("strategy { local_sgd { period: 4 format: WIRE_FORMAT_", format, " } } "),
        format);
  }
}

TEST_F(ResumeTest, Bfloat16WeightsGoOnExactly) {
  ExpectSameAfter(7, 2, kFullBf16, "adamw");
  ExpectSameAfter(5, 2, "precision: BF16_FULL clip_grad_norm: 0.5 ", "sgd");
  ExpectSameAfter(9, 4,
                  absl::StrCat(kFullBf16,
                               "strategy { hsgd { ladder { period: 2 size: 2 } ladder { period: 4 "
                               "size: 4 format: WIRE_FORMAT_INT8 } } } "),
                  "levels");
}

TEST_F(ResumeTest, AnotherPrecisionIsRefused) {
  RunJob(Spec(1, kFullBf16 + SaveTo("full", "every_steps: 10")));
  RunJob(Spec(1, kAdamW + SaveTo("wide", "every_steps: 10")));
  const auto refusal = [this](const std::string& changes, const std::string& checkpoint) {
    const auto daemon = MakeDaemon();
    daemon->Launch(Spec(1, changes + SaveTo("again")), 2, Checkpoint(checkpoint, 10));
    EXPECT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_RESTORE);
    return daemon->LastWords(0).error().message();
  };
  EXPECT_THAT(refusal(kAdamW, "full"),
              HasSubstr("it was saved with precision bf16_full, which the job does not have"));
  EXPECT_THAT(refusal(kFullBf16, "wide"),
              HasSubstr("with another precision than the job's, which is bf16_full"));
}

constexpr char kOuter[] =
    "strategy { warmup_steps: 1 hsgd { "
    "ladder { period: 2 size: 2 outer { kind: OUTER_SLOWMO learning_rate: 1 momentum: 0.5 } } "
    "ladder { period: 4 size: 4 format: WIRE_FORMAT_INT8 "
    "outer { kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 } } } } ";

TEST_F(ResumeTest, OuterStepsGoOnExactly) {
  ExpectSameAfter(9, 4, kOuter);
  ExpectSameAfter(9, 4, absl::StrCat(kFullBf16, kOuter), "bf16_full");
}

constexpr char kStreamed[] =
    "strategy { warmup_steps: 1 gradient_group_size: 1 hsgd { ladder { period: 4 size: 4 "
    "outer { kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 fragments: 2 delay: 1 "
    "alpha: 0.5 } } } } ";

// Saves are made in the warm-up, and whenever an average was taken up.
TEST_F(ResumeTest, StreamedOuterStepsGoOnExactly) {
  const v1::JobSpec spec = Spec(
      4,
      absl::StrCat(kAdamW, kStreamed, SaveTo("whole", "every_steps: 1 when_busy: WHEN_BUSY_WAIT")));
  const auto whole = RunJob(spec);
  std::vector<int64_t> saved;
  const auto found = SettleCheckpoints(JobDirectory("whole"), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const CompleteCheckpoint& one : *found) saved.push_back(one.step);
  EXPECT_THAT(saved, ElementsAre(1, 4, 6, 8, 10, 12, 14, 16, 18, 20));
  for (const int64_t step : {1, 4, 10}) ExpectSameFrom(*whole, spec, step, "whole");
}

// Rounding errors are those after the average that was taken up.
TEST_F(ResumeTest, StreamedOuterStepsOfInt4GoOnExactly) {
  ExpectSameAfter(
      10, 4,
      "strategy { warmup_steps: 1 gradient_group_size: 1 hsgd { ladder { period: 8 "
      "size: 4 format: WIRE_FORMAT_INT4 outer { kind: OUTER_NESTEROV learning_rate: 0.7 "
      "momentum: 0.9 fragments: 2 delay: 1 alpha: 0.5 } } } } ");
}

// Other ranks go on from what all had in common.
TEST_F(ResumeTest, AStreamedJobGoesOnWithOtherRanks) {
  RunJob(Spec(4, absl::StrCat(kAdamW, kStreamed, SaveTo("out", "every_steps: 9"))));
  const auto files = CheckpointFiles::Open(Checkpoint("out", 10));
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string momentum = "averager/momentum/";
  int parameters = 0;
  for (const ManifestTensor& tensor : files->manifest().tensors) {
    if (tensor.name.rfind(momentum, 0) != 0) continue;
    const std::string own = "averager/own/" + tensor.name.substr(momentum.size());
    EXPECT_NE(files->Find(own), nullptr) << own;
    EXPECT_NE(files->Find("rank3/" + own), nullptr) << own;
    ++parameters;
  }
  EXPECT_GT(parameters, 0);
  const auto two =
      Resume(Spec(2, kAdamW + std::string("strategy { hsgd { ladder { period: 4 size: 2 } } } ") +
                         SaveTo("again")),
             Checkpoint("out", 10));
  EXPECT_GE(Values(*two, 0, "loss").size(), 10U);
}

// The momentum is saved as the parameters are, each part by one rank, and read by other ladders.
TEST_F(ResumeTest, TheMomentumOfOuterStepsIsInTheCheckpoint) {
  RunJob(Spec(4, kOuter + SaveTo("out", "every_steps: 9")));
  const auto files = CheckpointFiles::Open(Checkpoint("out", 9));
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string slot = "optimizer/momentum_buffer/";
  int parameters = 0;
  for (const ManifestTensor& tensor : files->manifest().tensors) {
    if (tensor.name.rfind(slot, 0) != 0) continue;
    const std::string name = tensor.name.substr(slot.size());
    const ManifestTensor* const momentum = files->Find("averager/momentum/" + name);
    ASSERT_NE(momentum, nullptr) << name;
    EXPECT_EQ(momentum->shape, tensor.shape);
    EXPECT_EQ(files->Find("rank1/averager/momentum/" + name), nullptr) << "equal on all ranks";
    ++parameters;
  }
  EXPECT_GT(parameters, 0);
  EXPECT_NE(files->Find("averager/level0/momentum"), nullptr);
  EXPECT_NE(files->Find("rank1/averager/level0/momentum"), nullptr);
  const auto two = Resume(
      Spec(2,
           "strategy { local_sgd { period: 4 outer { kind: OUTER_NESTEROV learning_rate: 0.7 "
           "momentum: 0.9 } } } " +
               SaveTo("again")),
      Checkpoint("out", 9));
  EXPECT_GE(Values(*two, 0, "loss").size(), 11U);
}

// With weights that never change and batches of one, a sample's loss identifies it.
TEST_F(ResumeTest, NoSampleIsLostOrRepeatedOnOtherNumbersOfRanks) {
  const std::string still =
      "batch_per_rank: 1 optimizer { sgd { momentum: 0 } learning_rate: 1e-30 } ";
  const auto losses = [](const FakeDaemon& daemon, int ranks, size_t steps) {
    std::vector<double> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<double> own = Values(daemon, rank, "loss");
      own.resize(std::min(own.size(), steps));
      seen.insert(seen.end(), own.begin(), own.end());
    }
    return seen;
  };
  // 200 samples: 4 ranks see 4 x 20, then 2 ranks 2 x 15, then 3 ranks 3 x 30.
  const auto one = RunJob(Spec(1, still + "steps: 200 "));
  std::vector<double> all = losses(*one, 1, 200);
  const auto four = RunJob(Spec(4, still + "steps: 25 " + SaveTo("out", "every_steps: 20")));
  std::vector<double> seen = losses(*four, 4, 20);
  const auto two = Resume(Spec(2, still + "steps: 40 " + SaveTo("out", "every_steps: 35")),
                          Checkpoint("out", 20));
  const std::vector<double> second = losses(*two, 2, 15);
  seen.insert(seen.end(), second.begin(), second.end());
  const auto three =
      Resume(Spec(3, still + "steps: 65 " + SaveTo("out")), Checkpoint("out", 35, 2), 3);
  const std::vector<double> third = losses(*three, 3, 30);
  seen.insert(seen.end(), third.begin(), third.end());

  ASSERT_EQ(seen.size(), 200u);
  std::sort(all.begin(), all.end());
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(std::unique(all.begin(), all.end()) - all.begin(), 200)
      << "samples cannot be told apart";
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], all[i], 1e-6) << i;
}

TEST_F(ResumeTest, AnyNumberOfRanksGoesOnFromAnyOther) {
  const std::string changes = kAdamW;
  const auto whole =
      RunJob(Spec(4, changes + "batch_per_rank: 3 " + SaveTo("out", "every_steps: 10")));
  const std::vector<double> expected = Values(*whole, 0, "mean_loss");
  const std::vector<std::pair<int, int>> shapes = {{1, 12}, {2, 6}, {3, 4}, {6, 2}};
  for (const auto& [ranks, batch] : shapes) {
    const auto resumed =
        Resume(Spec(ranks, absl::StrCat(changes, "batch_per_rank: ", batch, " ", SaveTo("again"))),
               Checkpoint("out", 10));
    const std::vector<double> losses = Values(*resumed, 0, ranks == 1 ? "loss" : "mean_loss");
    ASSERT_EQ(losses.size(), 10u);
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(losses[i] / expected[10 + i], 1, 2e-5) << ranks << " ranks, step " << i;
    }
  }
}

TEST_F(ResumeTest, HierarchicalSgdGoesOnWithOtherRanks) {
  const std::string ladder4 =
      "strategy { hsgd { ladder { period: 2 size: 2 } ladder { period: 4 size: 4 } } } ";
  const std::string ladder2 = "strategy { hsgd { ladder { period: 4 size: 2 } } } ";
  const auto four = RunJob(Spec(4, kAdamW + ladder4 + SaveTo("out", "every_steps: 9")));
  const auto two = Resume(Spec(2, kAdamW + ladder2 + SaveTo("again")), Checkpoint("out", 9));
  EXPECT_LT(Values(*two, 0, "loss").back(), Values(*four, 0, "loss").front());
  const std::string ladder8 = "strategy { hsgd { ladder { period: 4 size: 8 } } } ";
  const auto eight = Resume(Spec(8, kAdamW + ladder8 + "batch_per_rank: 2 " + SaveTo("again")),
                            Checkpoint("out", 9));
  EXPECT_LT(Values(*eight, 7, "loss").back(), Values(*four, 0, "loss").front());
}

TEST_F(ResumeTest, TheEndIsSavedAndComplete) {
  v1::JobSpec spec = Spec(2, "steps: 6 " + SaveTo("out"));
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec);
  EXPECT_TRUE(CheckpointFiles::Open(Checkpoint("out", 6)).ok());
  // With more steps it continues from there.
  spec.set_steps(9);
  const auto resumed = Resume(spec, Checkpoint("out", 6));
  EXPECT_EQ(Values(*resumed, 0, "loss").size(), 3u);
  EXPECT_TRUE(CheckpointFiles::Open(Checkpoint("out", 9, 2)).ok());
  // A job without steps left has nothing to do and succeeds.
  Resume(spec, Checkpoint("out", 9, 2), 3);
}

TEST_F(ResumeTest, AnotherStrategyStartsWithEqualRanks) {
  const std::string ladder = "strategy { hsgd { ladder { period: 4 size: 2 } } } ";
  RunJob(Spec(2, kAdamW + ladder + SaveTo("out", "every_steps: 9")));
  // If the moments of the ranks were not equal, their parameters would drift apart, and with them
  // rank 1's share of the mean gradient: comparing with one rank that has both batches shows it.
  const auto two = Resume(Spec(2, kAdamW + SaveTo("two", "every_steps: 20")), Checkpoint("out", 9));
  const auto one = Resume(Spec(1, kAdamW + std::string("batch_per_rank: 8 ") + SaveTo("one")),
                          Checkpoint("out", 9));
  const std::vector<double> together = Values(*two, 0, "mean_loss");
  const std::vector<double> alone = Values(*one, 0, "loss");
  ASSERT_EQ(together.size(), 11u);
  ASSERT_EQ(alone.size(), 11u);
  for (size_t i = 0; i < 11; ++i) EXPECT_NEAR(together[i] / alone[i], 1, 2e-5) << i;
}

TEST_F(ResumeTest, ACheckpointBeyondTheLastStepIsRefused) {
  RunJob(Spec(1, SaveTo("out", "every_steps: 20")));
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(1, "steps: 12 " + SaveTo("again")), 2, Checkpoint("out", 20));
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr("20 steps"));
}

TEST_F(ResumeTest, DamageIsNamed) {
  const v1::JobSpec spec = Spec(2, SaveTo("out", "every_steps: 10"));
  RunJob(spec);
  const auto expect_refusal = [&](const std::string& checkpoint, const std::string& what) {
    const auto daemon = MakeDaemon();
    daemon->Launch(spec, 2, checkpoint);
    ASSERT_TRUE(daemon->Serve());
    EXPECT_EQ(daemon->exit_code(0), 1);
    EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_RESTORE);
    EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr(what));
    EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr(checkpoint));
  };
  expect_refusal(directory_ + "/nowhere", "no");

  // Both ranks read this shard.
  const std::string shard = Checkpoint("out", 10) + "/" + ShardName(1, 2);
  int64_t offset = 0;
  {
    const auto files = CheckpointFiles::Open(Checkpoint("out", 10));
    ASSERT_TRUE(files.ok()) << files.status();
    for (const ManifestTensor& tensor : files->manifest().tensors) {
      const TensorSlice& slice = tensor.slices.back();
      if (tensor.name.rfind("optimizer/", 0) == 0 && slice.file == ShardName(1, 2)) {
        offset = slice.offset;
      }
    }
  }
  ASSERT_GT(offset, 0);
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file.put('\x55');
  file.close();
  expect_refusal(Checkpoint("out", 10), ShardName(1, 2));

  const std::string manifest = Checkpoint("out", 20) + "/" + kManifestName;
  std::fstream text(manifest, std::ios::in | std::ios::out | std::ios::binary);
  text.seekp(200);
  text.put('#');
  text.close();
  expect_refusal(Checkpoint("out", 20), kManifestName);
  std::filesystem::remove(shard);
  expect_refusal(Checkpoint("out", 10), ShardName(1, 2));
}

TEST_F(ResumeTest, AnotherModelIsRefusedWithAllThatDiffers) {
  RunJob(Spec(1, SaveTo("out", "every_steps: 10")));
  const auto daemon = MakeDaemon();
  v1::JobSpec spec = Spec(1, SaveTo("again"));
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  spec.mutable_model()->mutable_mlp()->add_hidden(16);
  daemon->Launch(spec, 2, Checkpoint("out", 10));
  ASSERT_TRUE(daemon->Serve());
  const v1::TrainerError error = daemon->LastWords(0).error();
  EXPECT_EQ(error.kind(), v1::FAILURE_RESTORE);
  EXPECT_THAT(error.message(), HasSubstr("32"));
  EXPECT_THAT(error.message(), HasSubstr("16"));
}

}  // namespace
}  // namespace paceline
