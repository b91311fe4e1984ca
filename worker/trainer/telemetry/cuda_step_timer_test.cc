#include "worker/trainer/telemetry/cuda_step_timer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace paceline {
namespace {

// A device that lags behind the CPU: its stream holds work and events, and passes them when told to
// run.
class FakeEvents : public StreamEvents {
 public:
  // State of the device. Its clock runs like the CPU's, with an offset.
  struct Device {
    uint64_t now_ns = 7'000'000;
    bool capturing = false;
    std::vector<uint64_t> passed_ns;                // By event; 0: not passed.
    std::deque<std::pair<Event, uint64_t>> stream;  // Event, or -1 and work in ns.
    std::set<Event> live;
    size_t most_live = 0;
    int waits = 0;

    void Work(uint64_t nanos) { stream.emplace_back(-1, nanos); }
    // Passes everything up to and including this event.
    void RunTo(Event event) {
      while (passed_ns[static_cast<size_t>(event)] == 0) RunOne();
    }
    void RunAll() {
      while (!stream.empty()) RunOne();
    }
    void RunOne() {
      const auto [event, nanos] = stream.front();
      stream.pop_front();
      if (event < 0) {
        now_ns += nanos;
      } else {
        passed_ns[static_cast<size_t>(event)] = now_ns;
      }
    }
  };

  explicit FakeEvents(Device& device) : device_(device) {}

  std::optional<Event> Record() override {
    if (device_.capturing) return std::nullopt;
    const Event event = static_cast<Event>(device_.passed_ns.size());
    device_.passed_ns.push_back(0);
    device_.stream.emplace_back(event, 0);
    device_.live.insert(event);
    device_.most_live = std::max(device_.most_live, device_.live.size());
    return event;
  }
  bool HasPassed(Event event) override { return Passed(event) != 0; }
  void Wait(Event event) override {
    ++device_.waits;
    device_.RunTo(event);
  }
  uint64_t NanosBetween(Event from, Event to) override {
    EXPECT_TRUE(HasPassed(from) && HasPassed(to));
    return Passed(to) - Passed(from);
  }
  void Release(Event event) override { EXPECT_EQ(device_.live.erase(event), 1); }
  at::Tensor HostFloats(int64_t count) override { return at::empty({count}); }

 private:
  uint64_t Passed(Event event) const {
    EXPECT_EQ(device_.live.count(event), 1) << "used after its release";
    return device_.passed_ns[static_cast<size_t>(event)];
  }

  Device& device_;
};

class CudaStepTimerTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = testing::TempDir() + "/ring";
    ASSERT_TRUE(CreateStepRing(path, 16).ok());
    ring_.emplace(*StepRingWriter::Open(path));
    reader_.emplace(*StepRingReader::Open(path));
    timer_.emplace(*ring_, std::make_unique<FakeEvents>(device_), [this] { return cpu_ns_; });
  }

  // A step whose phases keep the device busy for 1, 2, 3 and 4 us.
  void LaunchStep(int64_t step) {
    uint64_t nanos = 1000;
    for (const Phase phase :
         {Phase::kDataWait, Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
      timer_->Enter(phase, step);
      device_.Work(nanos);
      nanos += 1000;
    }
    EndStep(step);
  }

  void EndStep(int64_t step) {
    StepResult result;
    result.step = step;
    result.samples = 8;
    result.loss = at::scalar_tensor(0.5 + static_cast<double>(step));
    if (step % 2 == 1) result.grad_norm = at::scalar_tensor(2.5);
    timer_->EndStep(result);
  }

  static uint64_t In(const StepRecord& record, Phase phase) {
    return record.phase_ns[static_cast<size_t>(phase)];
  }

  FakeEvents::Device device_;
  uint64_t cpu_ns_ = 1'000'000;
  std::optional<StepRingWriter> ring_;
  std::optional<StepRingReader> reader_;
  std::optional<CudaStepTimer> timer_;
};

TEST_F(CudaStepTimerTest, PhasesAreThoseOfTheDevice) {
  LaunchStep(0);
  device_.RunAll();
  cpu_ns_ += 20'000;
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(In(records[0], Phase::kDataWait), 1000);
  EXPECT_EQ(In(records[0], Phase::kForward), 2000);
  EXPECT_EQ(In(records[0], Phase::kBackward), 3000);
  EXPECT_EQ(In(records[0], Phase::kOptimizer), 4000);
  EXPECT_EQ(records[0].total_ns, 10'000);
  EXPECT_EQ(records[0].start_ns, 1'000'000);
  EXPECT_EQ(records[0].samples, 8);
  EXPECT_EQ(records[0].loss, 0.5);
  EXPECT_TRUE(std::isnan(records[0].grad_norm));
}

TEST_F(CudaStepTimerTest, NothingWaitsAndRecordsComeInOrderWhenTheDeviceIsThere) {
  for (int64_t step = 0; step < 3; ++step) LaunchStep(step);
  EXPECT_TRUE(timer_->TakeFinished().empty());
  EXPECT_EQ(reader_->Written(), 0);
  EXPECT_EQ(reader_->Live().phase, Phase::kIdle);
  EXPECT_EQ(reader_->Live().step, 3);

  device_.RunAll();
  LaunchStep(3);
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].step, i);
    EXPECT_EQ(records[i].loss, 0.5 + static_cast<double>(i));
  }
  EXPECT_EQ(records[1].grad_norm, 2.5);
  EXPECT_EQ(reader_->Written(), 3);
  EXPECT_EQ(device_.waits, 0);
}

TEST_F(CudaStepTimerTest, FlushFinishesAll) {
  for (int64_t step = 0; step < 3; ++step) LaunchStep(step);
  timer_->Flush();
  EXPECT_EQ(timer_->TakeFinished().size(), 3);
  EXPECT_EQ(device_.waits, 3);
  timer_->Flush();
  EXPECT_EQ(device_.waits, 3);
}

TEST_F(CudaStepTimerTest, LivePhaseIsThatOfTheCpu) {
  timer_->Enter(Phase::kForward, 5);
  EXPECT_EQ(reader_->Live().phase, Phase::kForward);
  EXPECT_EQ(reader_->Live().step, 5);
}

TEST_F(CudaStepTimerTest, EventsAreUsedAgain) {
  for (int64_t step = 0; step < 50; ++step) {
    LaunchStep(step);
    device_.RunAll();
  }
  EXPECT_EQ(timer_->TakeFinished().size(), 50);
  EXPECT_EQ(device_.live.size(), 1);  // The anchor.
  EXPECT_LE(device_.most_live, 11);   // Two steps of five events, and the anchor.
}

TEST_F(CudaStepTimerTest, StepsBeginAsTheDeviceSaysWithinWhatTheCpuKnows) {
  LaunchStep(0);
  LaunchStep(1);  // Requested at once, begun 10 us later.
  device_.RunAll();
  cpu_ns_ += 25'000;
  std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[1].start_ns, 1'010'000);

  // The device's clock stood still while the CPU's went on.
  cpu_ns_ = 2'000'000;
  LaunchStep(2);
  device_.RunAll();
  cpu_ns_ += 15'000;
  records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].start_ns, 2'000'000);

  // The device's clock ran ahead.
  device_.Work(5'000'000);
  LaunchStep(3);
  device_.RunAll();
  cpu_ns_ += 40'000;
  records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].start_ns + records[0].total_ns, cpu_ns_);
}

TEST_F(CudaStepTimerTest, IdleBetweenStepsIsNoPartOfOne) {
  timer_->Enter(Phase::kIdle, 0);
  device_.Work(500);
  LaunchStep(0);
  timer_->Enter(Phase::kIdle, 1);
  device_.RunAll();
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].total_ns, 10'000);
}

TEST_F(CudaStepTimerTest, CapturedPhasesAreChargedToTheOneBefore) {
  timer_->Enter(Phase::kForward, 0);
  device_.capturing = true;
  timer_->Enter(Phase::kBackward, 0);
  EXPECT_EQ(reader_->Live().phase, Phase::kBackward);
  device_.capturing = false;
  device_.Work(3000);
  EndStep(0);
  device_.RunAll();
  const std::vector<StepRecord> records = timer_->TakeFinished();
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(In(records[0], Phase::kForward), 3000);
  EXPECT_EQ(In(records[0], Phase::kBackward), 0);
}

}  // namespace
}  // namespace paceline
