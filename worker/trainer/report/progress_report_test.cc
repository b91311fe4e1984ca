#include "worker/trainer/report/progress_report.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/testing/fake_control.h"

namespace paceline {
namespace {

class OneParameter : public Model {
 public:
  OneParameter() : Model(at::kCPU) { AddParameter("weight", at::ones({2})); }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

// The memory of a device, as its allocator counts it.
class CountingPlatform : public CpuPlatform {
 public:
  void Allocate(int64_t bytes) {
    memory_.active += bytes;
    memory_.active_peak = std::max(memory_.active_peak, memory_.active);
  }
  void Free(int64_t bytes) { memory_.active -= bytes; }

  std::optional<DeviceMemory> Memory() const override { return memory_; }
  void ResetMemoryPeaks() override { memory_.active_peak = memory_.active; }

 private:
  DeviceMemory memory_;
};

class RecordingControl : public FakeControl {
 public:
  void SetFigures(const RankFigures& figures) override { reported.push_back(figures); }
  std::vector<RankFigures> reported;
};

TEST(ProgressReportTest, EachIntervalTellsItsOwnPeakOfMemory) {
  const TrainerConfig config;
  const OneParameter model;
  RecordingControl control;
  CountingPlatform platform;
  CommunicationSeconds communication;
  const std::vector<ReportedNumber> reported;
  ProgressReport report({config, model, control, platform,
                         [](RankFigures* /*figures*/) { return 1.0; }, communication, reported});
  platform.Allocate(100);
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t more = step == 0 ? 1000 : 10;
    platform.Allocate(more);
    platform.Free(more);
    StepRecord record{};
    record.step = step;
    record.loss = 1;
    record.grad_norm = 1;
    report.ExpectNorms(at::ones({1}));
    report.Expect(at::Tensor(), /*gradient_group_size=*/1, /*ends_interval=*/true);
    ASSERT_TRUE(report.Publish({record}).ok());
  }
  ASSERT_EQ(control.reported.size(), 3u);
  EXPECT_EQ(control.reported[0].memory.device->active_peak, 1100);
  EXPECT_EQ(control.reported[1].memory.device->active_peak, 110) << "not that of the whole job";
  EXPECT_EQ(control.reported[2].memory.device->active_peak, 110);
}

TEST(ProgressReportTest, EachIntervalTellsWhatTheCallerHasReportedByThen) {
  const TrainerConfig config;
  const OneParameter model;
  RecordingControl control;
  CpuPlatform platform;
  CommunicationSeconds communication;
  std::vector<ReportedNumber> reported;
  ProgressReport report({config, model, control, platform,
                         [](RankFigures* /*figures*/) { return 1.0; }, communication, reported});
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
