#include <ATen/cuda/Sleep.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAEvent.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/gpu_test.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

constexpr int64_t kShort = 20'000'000;     // Cycles: about 10 ms.
constexpr uint64_t kClockError = 100'000;  // Nanoseconds.

class StepTimerTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const std::string path = testing::TempDir() + "/gpu-ring";
    ASSERT_TRUE(CreateStepRing(path, 64).ok());
    ring_.emplace(*StepRingWriter::Open(path));
    timer_ = platform_.MakeStepTimer(*ring_);
    // The device's clock wakes up, and memory and events are allocated.
    at::cuda::sleep(kShort);
    for (int64_t step = 0; step < 3; ++step) {
      timer_->Enter(Phase::kForward, step);
      EndStep(step);
    }
    timer_->Flush();
    timer_->TakeFinished();
  }

  void EndStep(int64_t step) {
    StepResult result;
    result.step = step;
    result.loss = at::full({}, 1.5, at::TensorOptions().device(device_));
    result.grad_norm = at::full({}, 0.25, at::TensorOptions().device(device_));
    timer_->EndStep(result);
  }

  std::optional<StepRingWriter> ring_;
  std::unique_ptr<StepTimer> timer_;
};

TEST_F(StepTimerTest, PhasesAreThoseThatEventsAroundThemMeasure) {
  std::vector<c10::cuda::CUDAEvent> events;
  for (int i = 0; i < 4; ++i) events.emplace_back(cudaEventDefault);
  const Phase phases[] = {Phase::kForward, Phase::kBackward, Phase::kOptimizer};
  const uint64_t before = MonotonicNanos();
  for (int i = 0; i < 3; ++i) {
    timer_->Enter(phases[i], 0);
    events[static_cast<size_t>(i)].record();
    at::cuda::sleep(kShort * (i + 1));
  }
  events[3].record();
  EndStep(0);
  timer_->Flush();
  const uint64_t after = MonotonicNanos();
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  double sum_ms = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double expected_ms = events[i].elapsed_time(events[i + 1]);
    const double ms =
        static_cast<double>(records[0].phase_ns[static_cast<size_t>(phases[i])]) * 1e-6;
    EXPECT_NEAR(ms, expected_ms, 0.05 * expected_ms + 0.1) << i;
    sum_ms += ms;
  }
  EXPECT_NEAR(static_cast<double>(records[0].total_ns) * 1e-6, sum_ms, 0.01);
  EXPECT_GE(records[0].start_ns, before);
  EXPECT_LE(records[0].start_ns + records[0].total_ns, after);
  EXPECT_EQ(records[0].loss, 1.5F);
  EXPECT_EQ(records[0].grad_norm, 0.25F);
}

TEST_F(StepTimerTest, NothingWaitsForTheDevice) {
  timer_->Enter(Phase::kForward, 0);
  at::cuda::sleep(kShort * 20);
  const uint64_t before = MonotonicNanos();
  EndStep(0);
  timer_->Enter(Phase::kForward, 1);
  EndStep(1);
  EXPECT_TRUE(timer_->TakeFinished().empty());
  const double host_ms = static_cast<double>(MonotonicNanos() - before) * 1e-6;
  timer_->Flush();
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 2);
  EXPECT_LT(host_ms, static_cast<double>(records[0].total_ns) * 1e-6 / 2);
  EXPECT_GE(records[1].start_ns + kClockError, records[0].start_ns + records[0].total_ns);
}

TEST_F(StepTimerTest, CostOfAStepIsSmall) {
  constexpr int kSteps = 500;
  const uint64_t before = MonotonicNanos();
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const Phase phase : {Phase::kDataWait, Phase::kForward, Phase::kBackward,
                              Phase::kCommunication, Phase::kOptimizer, Phase::kAveraging}) {
      timer_->Enter(phase, step);
    }
    EndStep(step);
  }
  const double us = static_cast<double>(MonotonicNanos() - before) * 1e-3 / kSteps;
  timer_->Flush();
  EXPECT_EQ(timer_->TakeFinished().size(), kSteps);
  RecordProperty("us_per_step", std::to_string(us));
  std::printf("step timer: %.1f us of the CPU for each step of six phases\n", us);
  EXPECT_LT(us, 500);
}

}  // namespace
}  // namespace paceline
