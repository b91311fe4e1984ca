#include "worker/trainer/report/progress_report.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/core/model_flops.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/testing/fake_control.h"
#include "worker/trainer/testing/fake_memory_platform.h"

namespace paceline {
namespace {

class OneParameter : public Model {
 public:
  OneParameter() : Model(at::kCPU) { AddParameter("weight", at::ones({2})); }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

class RecordingControl : public FakeControl {
 public:
  void SetFigures(const RankFigures& figures) override { reported.push_back(figures); }
  std::vector<RankFigures> reported;
};

// A report on fakes.
class ProgressReportTest : public testing::Test {
 protected:
  std::unique_ptr<ProgressReport> MakeReport() {
    return std::make_unique<ProgressReport>(ProgressReport::Parts{
        config_, model_, control_, *platform_, [](RankFigures* /*figures*/) { return 1.0; },
        communication_, reported_, has_begun_});
  }

  // A step of 4 samples in one second, that ends an interval. `between` happens in it.
  void MakeStep(
      ProgressReport& report, const std::function<void()>& between = [] {}) {
    report.BeforeStep();
    between();
    StepRecord record{};
    record.step = step_;
    record.start_ns = (1 + step_) * 1'000'000'000;
    record.total_ns = 1'000'000'000;
    record.samples = 4;
    record.workload = 4;
    record.loss = 1;
    record.grad_norm = 1;
    ++step_;
    report.ExpectNorms(at::ones({1}));
    report.Expect(at::Tensor(), /*gradient_group_size=*/1, /*ends_interval=*/true);
    ASSERT_TRUE(report.Publish({record}).ok());
  }

  const RankFigures& figures() const { return control_.reported.back(); }
  const DeviceMemory& memory() const { return *figures().memory.device; }

  TrainerConfig config_;
  OneParameter model_;
  RecordingControl control_;
  FakeMemoryPlatform fake_memory_;
  Platform* platform_ = &fake_memory_;
  CommunicationSeconds communication_;
  std::vector<ReportedNumber> reported_;
  bool has_begun_ = false;
  uint64_t step_ = 0;
};

constexpr int64_t kMiB = FakeMemoryPlatform::kLarge;

TEST_F(ProgressReportTest, TheFirstStepBeginsWithNoUnusedMemoryNoPeaksAndNoCounts) {
  fake_memory_.Allocate(100);
  fake_memory_.Allocate(8 * kMiB);
  fake_memory_.Allocate(1000);
  fake_memory_.Free(8 * kMiB);
  fake_memory_.Free(1000);
  fake_memory_.Retry();
  fake_memory_.RunOut();
  const std::unique_ptr<ProgressReport> report = MakeReport();
  MakeStep(*report);
  EXPECT_EQ(memory().active, 100);
  EXPECT_EQ(memory().active_peak, 100);
  EXPECT_EQ(memory().reserved, 100) << "what was free is the device's again";
  EXPECT_EQ(memory().reserved_peak, 100);
  EXPECT_EQ(memory().small_pool, 100);
  EXPECT_EQ(memory().small_pool_peak, 100);
  EXPECT_EQ(memory().large_pool, 0);
  EXPECT_EQ(memory().large_pool_peak, 0);
  EXPECT_EQ(memory().alloc_retries, 0);
  EXPECT_EQ(memory().ooms, 0);
}

TEST_F(ProgressReportTest, EachIntervalTellsItsOwnPeaksOfMemoryAndAllCounts) {
  const std::unique_ptr<ProgressReport> report = MakeReport();
  const auto use = [this](int64_t bytes) {
    return [this, bytes] {
      fake_memory_.Allocate(bytes);
      fake_memory_.Free(bytes);
      fake_memory_.Retry();
    };
  };
  MakeStep(*report, use(9 * kMiB));
  EXPECT_EQ(memory().active_peak, 9 * kMiB);
  EXPECT_EQ(memory().alloc_retries, 1);
  MakeStep(*report, use(2 * kMiB));
  EXPECT_EQ(memory().active_peak, 2 * kMiB) << "not that of the whole job";
  EXPECT_EQ(memory().large_pool_peak, 9 * kMiB) << "the cache is not emptied again";
  EXPECT_EQ(memory().alloc_retries, 2) << "they are totals";
  fake_memory_.RunOut();
  MakeStep(*report);
  EXPECT_EQ(memory().active_peak, 0);
  EXPECT_EQ(memory().ooms, 1);
}

TEST_F(ProgressReportTest, ALaterGenerationBeginsItsPeaksAnewAndNothingElse) {
  MakeStep(*MakeReport(), [this] { fake_memory_.Retry(); });
  fake_memory_.Allocate(5 * kMiB);
  fake_memory_.Free(5 * kMiB);
  MakeStep(*MakeReport());
  EXPECT_EQ(memory().active_peak, 0);
  EXPECT_EQ(memory().reserved, 5 * kMiB) << "recovery does not wait for the device";
  EXPECT_EQ(memory().alloc_retries, 1);
}

class H100 : public CpuPlatform {
 public:
  std::string DeviceName() const override { return "NVIDIA H100 80GB HBM3"; }
};

TEST_F(ProgressReportTest, CountedFlopsAreThoseOfTheIntervalInWhichTheyBecomeKnown) {
  H100 gpu;
  platform_ = &gpu;
  const std::unique_ptr<ProgressReport> report = MakeReport();
  MakeStep(*report);
  EXPECT_EQ(figures().flops_source, FlopsSource::kUnknown);
  EXPECT_EQ(figures().flops_per_s, 0);
  EXPECT_FALSE(figures().mfu.has_value());
  Flops counted;
  counted.half = 100e12;
  model_.SetCountedFlops(counted);
  MakeStep(*report);
  EXPECT_EQ(figures().flops_source, FlopsSource::kCounted);
  EXPECT_DOUBLE_EQ(figures().flops_per_sample, 100e12);
  EXPECT_DOUBLE_EQ(figures().flops_per_s, 400e12);
  EXPECT_DOUBLE_EQ(figures().peak_flops, 989e12);
  EXPECT_DOUBLE_EQ(*figures().mfu, 400.0 / 989);
}

TEST_F(ProgressReportTest, GivenFlopsGoFirstAndNeedAPeakToo) {
  H100 gpu;
  platform_ = &gpu;
  Flops counted;
  counted.half = 1;
  model_.SetCountedFlops(counted);
  config_.flops_per_sample = 25e12;
  MakeStep(*MakeReport());
  EXPECT_EQ(figures().flops_source, FlopsSource::kGiven);
  EXPECT_DOUBLE_EQ(figures().flops_per_s, 100e12);
  EXPECT_FALSE(figures().mfu.has_value()) << "in which formats it computes is not known";
  config_.peak_flops = 200e12;
  MakeStep(*MakeReport());
  EXPECT_DOUBLE_EQ(*figures().mfu, 0.5);
  config_.peak_flops = 0;
  config_.bf16 = true;
  MakeStep(*MakeReport());
  EXPECT_DOUBLE_EQ(*figures().mfu, 100.0 / 989);
}

TEST_F(ProgressReportTest, EachIntervalTellsWhatTheCallerHasReportedByThen) {
  const TrainerConfig config;
  const OneParameter model;
  RecordingControl control;
  CpuPlatform platform;
  CommunicationSeconds communication;
  std::vector<ReportedNumber> reported;
  bool has_begun = false;
  ProgressReport report({config, model, control, platform,
                         [](RankFigures* /*figures*/) { return 1.0; }, communication, reported,
                         has_begun});
  for (int64_t step = 0; step < 4; ++step) {
    if (step == 1) reported = {{"accuracy", 0.5, 2}};
    if (step == 2) reported = {{"accuracy", 0.75, 3}};
    StepRecord record{};
    record.step = step;
    record.loss = 1;
    record.grad_norm = 1;
    report.ExpectNorms(at::ones({1}));
    report.Expect(at::Tensor(), /*gradient_group_size=*/1, /*ends_interval=*/step != 1);
    ASSERT_TRUE(report.Publish({record}).ok());
  }
  ASSERT_EQ(control.reported.size(), 3u);
  EXPECT_TRUE(control.reported[0].reported.empty());
  for (const size_t interval : {size_t{1}, size_t{2}}) {
    ASSERT_EQ(control.reported[interval].reported.size(), 1u);
    EXPECT_EQ(control.reported[interval].reported[0].name, "accuracy");
    EXPECT_EQ(control.reported[interval].reported[0].value, 0.75);
    EXPECT_EQ(control.reported[interval].reported[0].step, 3);
  }
}

}  // namespace
}  // namespace paceline
