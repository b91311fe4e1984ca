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
  ProgressReport report({config, model, control, platform,
                         [](RankFigures* /*figures*/) { return 1.0; }, communication});
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

}  // namespace
}  // namespace paceline
