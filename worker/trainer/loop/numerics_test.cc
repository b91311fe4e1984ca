// Accumulation, clipping, losses that are not finite, exports and figures of real trainers.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class NumericsTest : public TrainerTest {
 protected:
  // Runs a job whose ranks may end in any way, and returns it.
  std::unique_ptr<FakeDaemon> RunToAnyEnd(const v1::JobSpec& spec) {
    std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(spec);
    EXPECT_TRUE(daemon->Serve());
    return daemon;
  }

  // All values that a rank exported, concatenated.
  std::vector<float> ValuesOf(const std::string& name, int rank) const {
    const auto file = SafetensorsFile::Open(ExportedFile(name, rank));
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<float> values;
    for (const Safetensor& tensor : file->tensors()) {
      const auto* first = reinterpret_cast<const float*>(tensor.bytes.data());
      const size_t count = tensor.bytes.size() / sizeof(float);
      values.insert(values.end(), first, first + count);
    }
    return values;
  }
};

// The gradient of a mean over 16 samples is the mean of the gradients over its parts, whether these
// are on several ranks or computed one after the other. (Twelve steps are an epoch, after which
// they would differ: larger batches leave more samples over.)
TEST_F(NumericsTest, AccumulationComputesWhatALargerBatchDoes) {
  const auto one = RunJob(Spec(1, "steps: 12 batch_per_rank: 16"));
  const auto accumulated = RunJob(Spec(1, "steps: 12 accumulation_steps: 4"));
  const auto both = RunJob(Spec(2, "steps: 12 accumulation_steps: 2"));
  const std::vector<double> expected = Values(*one, 0, "loss");
  const std::vector<double> in_turn = Values(*accumulated, 0, "loss");
  const std::vector<double> on_ranks = Values(*both, 0, "mean_loss");
  ASSERT_EQ(in_turn.size(), 12u);
  ASSERT_EQ(on_ranks.size(), 12u);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(in_turn[i] / expected[i], 1, 1e-5) << "step " << i;
    EXPECT_NEAR(on_ranks[i] / expected[i], 1, 1e-5) << "step " << i;
  }
  EXPECT_GT(both->status(0).figures().samples_per_s(), 0);
}

TEST_F(NumericsTest, ClippingBoundsTheStepAndTheNormIsThatBeforeIt) {
  const std::string step = "steps: 1 optimizer { sgd { momentum: 0 } learning_rate: ";
  v1::JobSpec still = Spec(1, absl::StrCat(step, "1e-30 } ", ExportTo("start")));
  v1::JobSpec clipped = Spec(1, absl::StrCat(step, "1 } clip_grad_norm: 0.01 ", ExportTo("end")));
  for (v1::JobSpec* spec : {&still, &clipped}) {
    spec->mutable_optimizer()->mutable_sgd()->clear_momentum();
  }
  RunJob(still);
  const auto daemon = RunJob(clipped);
  EXPECT_GT(daemon->status(0).figures().grad_norm(), 0.1);
  const std::vector<float> start = ValuesOf("start", 0);
  const std::vector<float> end = ValuesOf("end", 0);
  ASSERT_EQ(start.size(), end.size());
  double change = 0;
  for (size_t i = 0; i < start.size(); ++i) change += std::pow(double{end[i]} - start[i], 2);
  EXPECT_NEAR(std::sqrt(change), 0.01, 1e-5);
}

constexpr char kNanOnRankOne[] = "allow_chaos: true chaos { rank: 1 step: 3 kind: NAN_LOSS } ";

TEST_F(NumericsTest, NanStopsTheJobAndNamesStepRankAndParameter) {
  const auto daemon = RunToAnyEnd(Spec(2, absl::StrCat(kNanOnRankOne, ExportTo("never"))));
  ASSERT_TRUE(daemon->HasLastWords(1));
  const v1::TrainerError guilty = daemon->LastWords(1).error();
  EXPECT_EQ(guilty.kind(), v1::FAILURE_ERROR);
  EXPECT_THAT(guilty.message(), AllOf(HasSubstr("step 3 (from 0) of rank 1: the loss is nan"),
                                      HasSubstr("layers.0.weight")));
  // The other rank had a finite loss, but the mean gradient was not finite.
  const v1::TrainerError other = daemon->LastWords(0).error();
  EXPECT_EQ(other.kind(), v1::FAILURE_COLLECTIVE);
  EXPECT_THAT(other.message(), HasSubstr("step 3 (from 0) of rank 0"));
}

TEST_F(NumericsTest, SkippedStepIsLeftOutOnAllRanksAndCounted) {
  const auto daemon = RunJob(
      Spec(2, absl::StrCat(kNanOnRankOne, "on_nonfinite: NON_FINITE_SKIP ", ExportTo("end"))));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(daemon->status(rank).figures().skipped_steps(), 1);
    EXPECT_EQ(daemon->status(rank).figures().step(), 20);
    EXPECT_THAT(daemon->Log(rank), HasSubstr("skipped step 3 (from 0)"));
  }
  EXPECT_EQ(ValuesOf("end", 0), ValuesOf("end", 1));
  EXPECT_THAT(ValuesOf("end", 0), Each(::testing::Truly([](float x) { return std::isfinite(x); })));
}

TEST_F(NumericsTest, IgnoredNanPoisonsTheTrainingAndIsNotExportedInSilence) {
  const std::string ignoring =
      absl::StrCat(kNanOnRankOne, "on_nonfinite: NON_FINITE_IGNORE ", ExportTo("end"));
  const v1::TrainerError refused = RunToAnyEnd(Spec(2, ignoring))->LastWords(0).error();
  EXPECT_EQ(refused.kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(refused.message(), HasSubstr("layers.0.weight has a value that is not a number, and "
                                           "is not saved unless the job has save_nan: true"));
  const auto daemon = RunJob(Spec(2, ignoring + "save_nan: true "));
  EXPECT_THAT(daemon->Log(0), HasSubstr("the training has diverged"));
  const std::vector<float> end = ValuesOf("end", 0);
  EXPECT_TRUE(std::any_of(end.begin(), end.end(), [](float x) { return std::isnan(x); }));
}

TEST_F(NumericsTest, SyncBatchNormNormalisesOverAllRanksOfTheJob) {
  const auto statistics = [this](int ranks, const std::string& model, const std::string& name) {
    RunJob(Spec(ranks, absl::StrCat("model { resnet18 { ", model, " } } steps: 1 batch_per_rank: ",
                                    8 / ranks, " data { order: SEQUENTIAL } ", ExportTo(name))));
    const auto file = SafetensorsFile::Open(ExportedFile(name, 0));
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<float> means;
    for (const Safetensor& tensor : file->tensors()) {
      if (!absl::EndsWith(tensor.name, "running_mean")) continue;
      const auto* first = reinterpret_cast<const float*>(tensor.bytes.data());
      means.insert(means.end(), first, first + tensor.bytes.size() / sizeof(float));
    }
    return means;
  };
  const std::vector<float> one = statistics(1, "", "one");
  const std::vector<float> together = statistics(2, "sync_batchnorm: true", "together");
  const std::vector<float> apart = statistics(2, "", "apart");
  ASSERT_EQ(one.size(), together.size());
  double error = 0;
  double difference = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    error = std::max(error, std::abs(double{one[i]} - together[i]));
    difference = std::max(difference, std::abs(double{one[i]} - apart[i]));
  }
  EXPECT_LT(error, 1e-4);
  EXPECT_GT(difference, 1e-2);
}

TEST_F(NumericsTest, EveryRankExportsItsReplica) {
  RunJob(Spec(3, ExportTo("end")));
  EXPECT_THAT(ValuesOf("end", 0), SizeIs(32 * 64 + 32 + 10 * 32 + 10));
  EXPECT_EQ(ValuesOf("end", 0), ValuesOf("end", 1));
  EXPECT_EQ(ValuesOf("end", 0), ValuesOf("end", 2));
}

TEST_F(NumericsTest, ExportThatCannotBeWrittenIsNoticedBeforeTheFirstStep) {
  const auto daemon = RunToAnyEnd(Spec(1, "export_final: '/proc/nowhere/x.safetensors'"));
  EXPECT_EQ(daemon->LastWords(0).error().kind(), v1::FAILURE_INPUT);
  EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr("export_final"));
}

TEST_F(NumericsTest, FiguresOfTheLastInterval) {
  const auto daemon = RunJob(Spec(2, "log_every: 8 peak_flops: 1e15 schedule { warmup_steps: 2 }"));
  const v1::RankFigures& figures = daemon->status(1).figures();
  EXPECT_EQ(figures.step(), 20);
  EXPECT_EQ(figures.steps(), 4);
  EXPECT_GT(figures.training_s(), 0);
  EXPECT_GE(figures.wall_s(), figures.training_s() * 0.999);
  EXPECT_EQ(figures.learning_rate(), 0.05);
  EXPECT_GT(figures.grad_norm(), 0);
  EXPECT_GT(figures.samples_per_s(), 0);
  EXPECT_EQ(figures.tokens_per_s(), 0);
  EXPECT_GT(figures.mfu(), 0);
  EXPECT_LE(figures.mfu_wall(), figures.mfu() * 1.001);
  EXPECT_GT(figures.memory().rss(), 50 << 20);
  EXPECT_GE(figures.memory().rss_peak(), figures.memory().rss());
  EXPECT_FALSE(figures.memory().has_active());
  ASSERT_EQ(figures.levels_size(), 1);
  EXPECT_TRUE(figures.levels(0).gradients());
  EXPECT_EQ(figures.levels(0).group_size(), 2);
  EXPECT_EQ(figures.levels(0).count(), 20);
  // Each of two ranks sends each byte of the gradients once.
  EXPECT_EQ(figures.levels(0).bytes(), 20 * 4 * (32 * 64 + 32 + 10 * 32 + 10));
  EXPECT_EQ(figures.flops_source(), v1::FLOPS_FORMULA);
  EXPECT_EQ(figures.flops_per_sample(), 6 * (32 * 64 + 10 * 32));
  const auto without_peak = RunJob(Spec(1));
  EXPECT_FALSE(without_peak->status(0).figures().has_mfu()) << "the peak of a CPU is not known";
  EXPECT_GT(without_peak->status(0).figures().flops_per_s(), 0);
  EXPECT_EQ(without_peak->status(0).figures().peak_flops(), 0);
}

// Nobody has to give the FLOPs of a script, and counting them changes nothing.
TEST_F(NumericsTest, FlopsOfAScriptAreCountedOrGiven) {
  torch::jit::Module module("User");
  module.register_parameter("weight", at::zeros({64, 10}).requires_grad_(true), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(
      "def forward(self, inputs, targets):\n"
      "    y = torch.dropout(inputs.flatten(1), 0.5, self.training).matmul(self.weight)\n"
      "    return torch.cross_entropy_loss(y, targets)\n");
  const std::string file = directory_ + "/user.pt";
  module.save(file);
  const std::string script = absl::StrCat("model { torchscript { file: '", file,
                                          "' } } peak_flops: 1e15 accumulation_steps: 2 ");
  const auto counted = RunJob(Spec(2, script));
  for (const int rank : {0, 1}) {
    const v1::RankFigures& figures = counted->status(rank).figures();
    EXPECT_EQ(figures.flops_source(), v1::FLOPS_COUNTED);
    // The product, and the gradient of the weights.
    EXPECT_DOUBLE_EQ(figures.flops_per_sample(), 2 * 2 * 64 * 10);
    EXPECT_GT(figures.flops_per_s(), 0);
    EXPECT_GT(figures.mfu(), 0);
    EXPECT_EQ(figures.peak_flops(), 1e15);
  }
  EXPECT_THAT(counted->Log(0), HasSubstr("counted flops_per_sample=2560 in a step of 8 samples"));

  const auto given = RunJob(Spec(2, script + "flops_per_sample: 3000 "));
  EXPECT_EQ(given->status(0).figures().flops_source(), v1::FLOPS_GIVEN);
  EXPECT_DOUBLE_EQ(given->status(0).figures().flops_per_sample(), 3000);
  const auto off = RunJob(Spec(2, script + "count_flops: false "));
  EXPECT_EQ(off->status(0).figures().flops_source(), v1::FLOPS_SOURCE_UNSPECIFIED);
  EXPECT_FALSE(off->status(0).figures().has_mfu());
  EXPECT_EQ(Values(*counted, 0, "loss"), Values(*off, 0, "loss"));
  EXPECT_EQ(Values(*counted, 0, "grad_norm"), Values(*off, 0, "grad_norm"));
}

// What was before the first step (testing/trainer_server.cc) is in no figure.
TEST_F(NumericsTest, MemoryFiguresBeginWithTheFirstStep) {
  for (const char* const strategy : {"",
                                     "strategy { slipstream { mode: SLIPSTREAM_FREE window { "
                                     "min_steps: 1 max_steps: 2 max_cap: 4 } } }"}) {
    const auto daemon = MakeDaemon({"--fake-memory"});
    daemon->Launch(Spec(2, strategy));
    ASSERT_TRUE(daemon->Serve());
    for (const int rank : {0, 1}) {
      const v1::MemoryFigures& memory = daemon->status(rank).figures().memory();
      EXPECT_EQ(memory.active(), 1000) << daemon->Log(rank);
      EXPECT_EQ(memory.active_peak(), 1000);
      EXPECT_EQ(memory.reserved(), 1000);
      EXPECT_EQ(memory.reserved_peak(), 1000);
      EXPECT_EQ(memory.small_pool_peak(), 1000);
      EXPECT_EQ(memory.large_pool_peak(), 0);
      EXPECT_EQ(memory.alloc_retries(), 0);
      EXPECT_EQ(memory.ooms(), 0);
      EXPECT_TRUE(memory.has_ooms());
    }
  }
}

// The last step is profiled, and the file is complete although the process ends.
TEST_F(NumericsTest, ProfileOfTheLastStepsIsWritten) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(1,
                      "steps: 300 log_every: 1 "
                      "allow_chaos: true chaos { rank: -1 kind: SLEEP seconds: 0.01 steps: 300 }"));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).figures().step() >= 1; }));
  v1::ProfileRequest request;
  request.set_id(1);
  request.set_first_step(298);
  request.set_steps(5);
  daemon->SetProfile({0}, request);
  ASSERT_TRUE(daemon->Serve());
  ASSERT_TRUE(daemon->HasLastWords(0));
  const v1::ProfileResult result = daemon->LastWords(0).profile();
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.steps(), 2);
  EXPECT_TRUE(std::filesystem::exists(result.trace())) << result.trace();
}

TEST_F(NumericsTest, RankThatIsAloneTakesAnyStrategy) {
  const std::string average = "strategy { local_sgd { period: 4 } warmup_steps: 2 } ";
  const std::string ladder = "strategy { hsgd { ladder { period: 4 size: 1 } } } ";
  const auto alone = RunJob(Spec(1));
  EXPECT_EQ(Values(*RunJob(Spec(1, average)), 0, "loss"), Values(*alone, 0, "loss"));
  EXPECT_EQ(Values(*RunJob(Spec(1, ladder)), 0, "loss"), Values(*alone, 0, "loss"));
}

TEST_F(NumericsTest, ProfileHoldsTheSameStepsOnTheRanksThatWereAsked) {
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Spec(3,
           "steps: 100000 log_every: 100 "
           "allow_chaos: true chaos { rank: -1 kind: SLEEP seconds: 0.002 steps: 100000 }"));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(2).figures().step() >= 100; }));
  v1::ProfileRequest request;
  request.set_id(1);
  request.set_first_step(daemon->status(2).figures().step() + 400);
  request.set_steps(3);
  daemon->SetProfile({0, 2}, request);
  ASSERT_TRUE(daemon->Serve([&] {
    return daemon->status(0).profile().id() == 1 && daemon->status(2).profile().id() == 1;
  }));
  for (int rank : {0, 2}) {
    const v1::ProfileResult& result = daemon->status(rank).profile();
    EXPECT_EQ(result.error(), "");
    EXPECT_EQ(result.first_step(), request.first_step());
    EXPECT_EQ(result.steps(), 3);
    EXPECT_THAT(result.trace(), HasSubstr(daemon->TrainerDirectory(rank) + "/profiles/1/"));
    EXPECT_GT(result.trace_bytes(), 1000);
  }
  EXPECT_EQ(daemon->status(1).profile().id(), 0);
}

}  // namespace
}  // namespace paceline
