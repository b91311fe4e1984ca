// Real trainers whose batch normalisation is synchronised, and whose ranks have unequal numbers of
// samples at the end of an epoch. The test's data has 200 samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSync[] = "model { resnet18 { sync_batchnorm: true } } ";
// The weights stay those of the seed, so that differences by rounding do not grow.
constexpr char kStill[] = "optimizer { learning_rate: 1e-12 } ";
constexpr char kToTheEnd[] = "data { order: SEQUENTIAL drop_last: false } ";
// With it an epoch of three ranks has three passes of 66 samples and one of two, in which the last
// rank has none.
constexpr char kBatch[] = "batch_per_rank: 22 ";

class BatchNormTest : public RecoveryTest {
 protected:
  // The running statistics that a rank has exported, of layers whose names begin so.
  std::vector<float> Statistics(const std::string& name, int rank,
                                const std::string& layer = "") const {
    const auto file = SafetensorsFile::Open(ExportedFile(name, rank));
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<float> values;
    for (const Safetensor& tensor : file->tensors()) {
      if (!absl::StrContains(tensor.name, "running_")) continue;
      if (!absl::StartsWith(tensor.name, layer)) continue;
      const auto* first = reinterpret_cast<const float*>(tensor.bytes.data());
      values.insert(values.end(), first, first + tensor.bytes.size() / sizeof(float));
    }
    EXPECT_FALSE(values.empty());
    return values;
  }

  // The largest difference, relative to values above 1.
  static double Difference(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double worst = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      worst = std::max(worst, std::abs(double{a[i]} - b[i]) / (1 + std::abs(double{b[i]})));
    }
    return worst;
  }

  // The loss over all ranks, and the norm of its gradient, are at each step those of a job of one
  // rank.
  static void ExpectSameSteps(const FakeDaemon& many, const FakeDaemon& one, size_t steps,
                              double tolerance) {
    const std::map<std::string, std::string> of_one = {{"mean_loss", "loss"},
                                                       {"grad_norm", "grad_norm"}};
    for (const auto& [key, key_of_one] : of_one) {
      const std::vector<double> values = Values(many, 0, key);
      const std::vector<double> expected = Values(one, 0, key_of_one);
      ASSERT_EQ(values.size(), steps) << key;
      ASSERT_EQ(expected.size(), steps) << key;
      for (size_t i = 0; i < steps; ++i) {
        EXPECT_NEAR(values[i] / expected[i], 1, tolerance) << key << " at step " << i;
      }
    }
  }
};

// With 3 samples for each of three ranks a pass at the end of an epoch has 2, with 4 it has 8.
TEST_F(BatchNormTest, UnequalBatchesWeighAsTheirSamples) {
  for (const int batch : {3, 4}) {
    for (const int passes : {1, 3}) {
      SCOPED_TRACE(absl::StrCat(passes, " passes of ", batch));
      const std::string changes =
          absl::StrCat("data { drop_last: false } steps: 24 accumulation_steps: ", passes, " ");
      const auto three =
          RunJob(Spec(3, absl::StrCat(changes, "batch_per_rank: ", batch, " ", ExportTo("three"))));
      const auto one = RunJob(Spec(1, absl::StrCat(changes, "batch_per_rank: ", 3 * batch)));
      ExpectSameSteps(*three, *one, 24, 1e-3);
      ExpectEqualModels("three", 3);
    }
  }
}

// As torch's SyncBatchNorm, which is defined by this. The last pass of an epoch has 7, 7 and 6
// samples.
TEST_F(BatchNormTest, UnequalBatchesAreNormalisedAsOneRankWithAllSamplesDoes) {
  const std::string changes = absl::StrCat(kToTheEnd, kStill, "steps: 7 ");
  const auto three =
      RunJob(Spec(3, absl::StrCat(kSync, changes, "batch_per_rank: 12 ", ExportTo("three"))));
  const auto one = RunJob(Spec(
      1, absl::StrCat("model { resnet18 {} } ", changes, "batch_per_rank: 36 ", ExportTo("one"))));
  ExpectSameSteps(*three, *one, 7, 1e-2);
  EXPECT_LT(Difference(Statistics("three", 0), Statistics("one", 0)), 1e-3);
  ExpectEqualModels("three", 3);
}

// It has the others' statistics, to the bit. Those of one rank with all samples are compared in the
// first layer: two samples with one pixel each, as the last layers have them, are normalised to 1
// and -1 by whatever little distinguishes them, rounding too.
TEST_F(BatchNormTest, ARankWithoutSamplesHasTheStatisticsOfTheOthers) {
  const std::string changes = absl::StrCat(kToTheEnd, kStill, "steps: 4 ");
  RunJob(Spec(3, absl::StrCat(kSync, changes, kBatch, ExportTo("three"))));
  RunJob(Spec(
      1, absl::StrCat("model { resnet18 {} } ", changes, "batch_per_rank: 66 ", ExportTo("one"))));
  EXPECT_LT(Difference(Statistics("three", 0, "bn1."), Statistics("one", 0, "bn1.")), 1e-3);
  ExpectEqualModels("three", 3);
}

TEST_F(BatchNormTest, ALastPassOfOneSampleForARankIsRefusedAtTheStart) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(3, absl::StrCat("model { resnet18 {} } ", kBatch, kToTheEnd)));
  EXPECT_TRUE(daemon->Serve());
  ASSERT_TRUE(daemon->HasLastWords(0)) << daemon->Log(0);
  EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(daemon->LastWords(0).error().message(),
              AllOf(HasSubstr("data.drop_last is false, and the last pass of an epoch has 2 of the "
                              "200 samples"),
                    HasSubstr("model.sync_batchnorm")));
}

// 200 samples are 7 passes of 27 and one of 11 on three ranks, and 11 of 18 and one of 2 on two.
constexpr char kTwoAreTooFew[] = "model { resnet18 {} } batch_per_rank: 9 ";

TEST_F(BatchNormTest, ASizeThatTheJobMayShrinkToIsRefusedAtTheStart) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(3, absl::StrCat(kTwoAreTooFew, kToTheEnd,
                                      "recovery { max_failures: 1 min_ranks: 2 "
                                      "batch: KEEP_RANK_BATCH } ")));
  EXPECT_TRUE(daemon->Serve());
  ASSERT_TRUE(daemon->HasLastWords(0)) << daemon->Log(0);
  EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(daemon->LastWords(0).error().message(),
              HasSubstr("with 2 ranks, which recovery.min_ranks and recovery.max_ranks allow: "
                        "data.drop_last is false"));
}

// Where the epoch ends was not known at the start. The other one may find its peer gone.
TEST_F(BatchNormTest, APassThatLeavesTooFewIsNamedByWhoComesToItFirst) {
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(3, "disturbed", absl::StrCat(kTwoAreTooFew, kToTheEnd)));
  WaitForSteps(*daemon, 0, 3);
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 2}});
  Release();
  ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(0) || daemon->ended(2); }));
  const int first = daemon->ended(0) ? 0 : 2;
  ASSERT_TRUE(daemon->HasLastWords(first)) << daemon->Log(first);
  EXPECT_EQ(daemon->LastWords(first).error().kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(daemon->LastWords(first).error().message(),
              HasSubstr("the last pass of an epoch has 2 of the 200 samples"));
}

// Each group of two takes two neighbouring samples, as a job of one rank with a batch of two takes.
// Compared are statistics of the first layer, as above.
TEST_F(BatchNormTest, WithALadderTheRanksThatShareGradientsAreNormalisedTogether) {
  const std::string changes = "data { order: SEQUENTIAL } steps: 1 ";
  RunJob(Spec(4, absl::StrCat(kSync, changes, kStill,
                              "batch_per_rank: 1 strategy { hsgd { ladder { period: 4 size: 4 } } "
                              "gradient_group_size: 2 } ",
                              ExportTo("groups"))));
  RunJob(Spec(1, absl::StrCat("model { resnet18 {} } ", changes, kStill, "batch_per_rank: 2 ",
                              ExportTo("one"))));
  const std::vector<float> first = Statistics("groups", 0);
  EXPECT_LT(Difference(Statistics("groups", 0, "bn1."), Statistics("one", 0, "bn1.")), 1e-3);
  EXPECT_EQ(first, Statistics("groups", 1));
  EXPECT_EQ(Statistics("groups", 2), Statistics("groups", 3));
  EXPECT_GT(Difference(first, Statistics("groups", 2)), 1e-2);
}

// Of one with samples at each step, and of the one that has none in steps 3 and 7.
TEST_F(BatchNormTest, ALostRankIsReplacedWithItsStatistics) {
  const std::string changes = absl::StrCat(kSync, kBatch, kToTheEnd, "steps: 10 ");
  const auto undisturbed = RunUndisturbed(3, changes);
  for (const int victim : {1, 2}) {
    SCOPED_TRACE(victim);
    const auto daemon = MakeDaemon();
    daemon->Launch(RecoveringSpec(3, "disturbed", changes, /*spares=*/1));
    WaitUntilReady(*daemon, 3);
    WaitForSteps(*daemon, 0, 5);
    daemon->Signal(victim, SIGKILL);
    WaitForEnd(*daemon, victim);
    std::vector<int> trainers = {0, 1, 2};
    trainers[static_cast<size_t>(victim)] = 3;
    daemon->SetMembers({trainers});
    WaitForSuccess(*daemon, trainers);
    ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
  }
}

TEST_F(BatchNormTest, FewerRanksGoOnWithEqualStatistics) {
  const auto daemon = MakeDaemon();
  daemon->Launch(
      RecoveringSpec(3, "disturbed", absl::StrCat(kSync, kBatch, kToTheEnd, "steps: 12 ")));
  WaitForSteps(*daemon, 0, 6);
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 2}});
  WaitForSuccess(*daemon, {0, 2});
  EXPECT_EQ(Exported("disturbed/final", 0), Exported("disturbed/final", 1));
  for (const float value : Statistics("disturbed/final", 0)) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace paceline
