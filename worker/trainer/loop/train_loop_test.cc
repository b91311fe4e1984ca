// The results of real trainer processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/saving/sample_ledger.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

class TrainLoopTest : public TrainerTest {
 protected:
  SafetensorsFile Weights(const std::string& directory) const {
    absl::StatusOr<SafetensorsFile> file =
        SafetensorsFile::Open(directory + "/job-0123456789ab/final.safetensors");
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  std::string SaveTo(const std::string& directory) const {
    return absl::StrCat("checkpoint { directory: '", directory, "' } ");
  }

  std::string WithEvaluation() const {
    return absl::StrCat("data { eval: '", directory_, "/eval.shard' } ");
  }
};

// Largest difference, relative to the largest value.
double Difference(const Safetensor& a, const Safetensor& b) {
  const auto* x = reinterpret_cast<const float*>(a.bytes.data());
  const auto* y = reinterpret_cast<const float*>(b.bytes.data());
  double worst = 0;
  double largest = 0;
  for (size_t i = 0; i < a.bytes.size() / sizeof(float); ++i) {
    worst = std::max(worst, std::fabs(double{x[i]} - y[i]));
    largest = std::max(largest, std::fabs(double{x[i]}));
  }
  return worst / largest;
}

// The gradient of the mean over 16 samples is the mean of four means over 4. The sums are rounded
// differently, which 20 steps amplify to about 1e-6.
TEST_F(TrainLoopTest, FourRanksComputeWhatOneRankWithTheFourfoldBatchDoes) {
  const std::string changes = "schedule { warmup_steps: 5 cosine {} } ";
  const auto four = RunJob(Spec(4, changes + SaveTo(directory_ + "/four")));
  const auto one = RunJob(Spec(1, changes + "batch_per_rank: 16 " + SaveTo(directory_ + "/one")));
  const std::vector<double> many_losses = Values(*four, 0, "mean_loss");
  const std::vector<double> one_losses = Values(*one, 0, "loss");
  ASSERT_EQ(many_losses.size(), 20u);
  ASSERT_EQ(one_losses.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(many_losses[i] / one_losses[i], 1, 1e-5) << "step " << i;
  }
  EXPECT_LT(one_losses.back(), 0.8 * one_losses.front()) << "it must also learn";

  const SafetensorsFile many_weights = Weights(directory_ + "/four");
  const SafetensorsFile one_weights = Weights(directory_ + "/one");
  ASSERT_EQ(many_weights.tensors().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(many_weights.tensors()[i].name, one_weights.tensors()[i].name);
    EXPECT_LT(Difference(many_weights.tensors()[i], one_weights.tensors()[i]), 1e-5);
  }
}

TEST_F(TrainLoopTest, SameSeedSameBits) {
  const std::string weights = "model { resnet18 {} } steps: 3 ";
  const auto first = RunJob(Spec(2, weights + SaveTo(directory_ + "/first")));
  server_.clear();
  const auto second = RunJob(Spec(2, weights + SaveTo(directory_ + "/second")));
  const auto other = RunJob(Spec(2, weights + "seed: 4 "));
  EXPECT_EQ(Values(*first, 0, "loss"), Values(*second, 0, "loss"));
  EXPECT_NE(Values(*first, 0, "loss"), Values(*other, 0, "loss"));
  const SafetensorsFile a = Weights(directory_ + "/first");
  const SafetensorsFile b = Weights(directory_ + "/second");
  ASSERT_EQ(a.tensors().size(), 122u);  // Same as torchvision's resnet18.
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    EXPECT_EQ(a.tensors()[i].bytes, b.tensors()[i].bytes) << a.tensors()[i].name;
  }
}

// With the default of on_nonfinite, all gradients exist before the first parameter changes.
TEST_F(TrainLoopTest, UpdatesInTheBackwardPassChangeNoBit) {
  const std::string changes = "optimizer { adamw {} learning_rate: 0.01 } ";
  const auto after = RunJob(Spec(1, changes + SaveTo(directory_ + "/after")));
  const auto within = RunJob(
      Spec(1, changes + "on_nonfinite: NON_FINITE_IGNORE " + SaveTo(directory_ + "/within")));
  EXPECT_EQ(Values(*within, 0, "loss"), Values(*after, 0, "loss"));
  EXPECT_EQ(Values(*within, 0, "grad_norm"), Values(*after, 0, "grad_norm"));
  const SafetensorsFile expected = Weights(directory_ + "/after");
  const SafetensorsFile actual = Weights(directory_ + "/within");
  ASSERT_EQ(actual.tensors().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(actual.tensors()[i].bytes, expected.tensors()[i].bytes) << actual.tensors()[i].name;
  }
}

TEST_F(TrainLoopTest, EvaluationIsTheSameForAnyNumberOfRanks) {
  std::vector<v1::EvaluationResult> results;
  // The 61 samples are divided unevenly. The weights hardly change from the seed's.
  for (int ranks : {1, 2, 3}) {
    const auto daemon =
        RunJob(Spec(ranks, WithEvaluation() + "steps: 1 optimizer { learning_rate: 1e-12 }"));
    results.push_back(daemon->status(0).evaluation());
    EXPECT_EQ(daemon->status(ranks - 1).evaluation().loss(), results.back().loss());
  }
  for (const v1::EvaluationResult& result : results) {
    EXPECT_EQ(result.samples(), 61);
    EXPECT_EQ(result.step(), 1);
    EXPECT_EQ(result.accuracy(), results[0].accuracy());
    EXPECT_NEAR(result.loss(), results[0].loss(), 1e-6);
  }
}

TEST_F(TrainLoopTest, EvaluatesEveryNStepsAndAtTheEnd) {
  const auto daemon = RunJob(Spec(2, WithEvaluation() + "steps: 25 evaluation { every: 10 }"));
  EXPECT_EQ(Values(*daemon, 0, "accuracy").size(), 3u);
  EXPECT_EQ(daemon->status(1).evaluation().step(), 25);
  EXPECT_GT(daemon->status(1).evaluation().accuracy(), 0.9);
}

TEST_F(TrainLoopTest, LastEvaluationIsOfTheMeanOfAllRanks) {
  // The ranks do not average before the end.
  const std::string apart =
      WithEvaluation() + "steps: 10 strategy { local_sgd { period: 100 } gradient_group_size: 1 } ";
  const auto once = RunJob(Spec(2, apart));
  const auto often = RunJob(Spec(2, apart + "evaluation { every: 5 } "));
  EXPECT_EQ(Values(*often, 0, "accuracy").size(), 2u);
  EXPECT_EQ(often->status(0).evaluation().step(), 10);
  EXPECT_EQ(often->status(0).evaluation().loss(), once->status(0).evaluation().loss());
}

TEST_F(TrainLoopTest, EveryStepIsInTheRingWithAllItsPhases) {
  const auto daemon = RunJob(Spec(2));
  for (int rank = 0; rank < 2; ++rank) {
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(rank));
    ASSERT_TRUE(ring.ok()) << ring.status();
    const StepRingReader::Batch batch = ring->ReadFrom(0);
    const std::vector<double> losses = Values(*daemon, rank, "loss");
    ASSERT_EQ(batch.records.size(), 20u);
    for (size_t i = 0; i < 20; ++i) {
      const StepRecord& record = batch.records[i];
      EXPECT_EQ(record.step, i);
      EXPECT_EQ(record.samples, 4u);
      EXPECT_NEAR(record.loss, losses[i], 1e-6);
      for (const Phase phase : {Phase::kDataWait, Phase::kForward, Phase::kBackward,
                                Phase::kCommunication, Phase::kOptimizer}) {
        EXPECT_GT(record.phase_ns[static_cast<size_t>(phase)], 0u) << PhaseName(phase);
      }
      EXPECT_GT(record.grad_norm, 0);
      EXPECT_EQ(record.learning_rate, 0.05f);
      EXPECT_EQ(record.workload, 4);
      EXPECT_EQ(record.averaging_group_size, 0u);
      EXPECT_GT(record.wire_bytes, 0u);
      EXPECT_FALSE(record.masked);
    }
  }
}

// Rank 1 is 0.3 s late in step 7, and rank 0 waits for it: in COMMUNICATION, not in BACKWARD.
TEST_F(TrainLoopTest, WaitingForASlowRankIsCommunication) {
  const auto daemon =
      RunJob(Spec(2, "allow_chaos: true chaos { rank: 1 step: 7 kind: SLEEP seconds: 0.3 }"));
  absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(0));
  ASSERT_TRUE(ring.ok()) << ring.status();
  const StepRecord record = ring->ReadFrom(0).records.at(7);
  EXPECT_GT(record.phase_ns[static_cast<size_t>(Phase::kCommunication)], 250'000'000u);
  EXPECT_LT(record.phase_ns[static_cast<size_t>(Phase::kBackward)], 100'000'000u);
}

TEST_F(TrainLoopTest, WeightsGoOnFromAFile) {
  RunJob(Spec(1, SaveTo(directory_ + "/first")));
  const std::string path = directory_ + "/first/job-0123456789ab/final.safetensors";
  const auto daemon = RunJob(Spec(1, absl::StrCat("init_from: '", path, "'")));
  EXPECT_LT(Values(*daemon, 0, "loss").front(), 0.5) << "ln 10 = 2.3 is where training begins";
}

TEST_F(TrainLoopTest, ALedgerHasTheSamplesOfEachStep) {
  RunJob(Spec(2, absl::StrCat("checkpoint { directory: '", directory_,
                              "/ledger' sample_ledger: true } accumulation_steps: 2")));
  const absl::StatusOr<LedgerFiles> files =
      ReadSampleLedger(absl::StrCat(directory_, "/ledger/", FakeDaemon::JobId()));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->damaged, 0);
  EXPECT_EQ(files->runs.size(), 2U);
  const LedgerUse use = UseOf(CountedRuns(files->runs));
  EXPECT_EQ(use.last_step, 19);
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.unknown, 0);
  int64_t used = 0;
  for (const EpochUse& epoch : use.epochs) {
    used += epoch.once;
    EXPECT_EQ(epoch.again, 0) << epoch.epoch;
  }
  EXPECT_EQ(used, 20 * 2 * 2 * 4) << "steps, ranks, passes, samples";
}

}  // namespace
}  // namespace paceline
