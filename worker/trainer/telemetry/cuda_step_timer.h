// The step timer of a rank on a GPU: the times that pass on the device.
//
// Each call records an event in the current stream; the phases of a step are the times between
// its events as the device passed them, so that a phase is charged with what the device did,
// not with when the CPU asked for it. Events, and the step's scalars on their way to the host,
// are looked at when the timer is called anyway: a record is finished a few steps later, and
// nothing ever waits, but for Flush. The ring's live phase is that of the CPU, at once.
//
// Device times are placed on CLOCK_MONOTONIC, which the device's clock drifts against: a step
// begins as long after the one before as the device says, but not before the CPU asked for its
// first event, and so that it ended before the CPU saw that.
//
// In a stream that is being captured into a CUDA graph nothing can be timed: the phases that
// are entered meanwhile are charged to the one before.
#ifndef WORKER_TRAINER_TELEMETRY_CUDA_STEP_TIMER_H_
#define WORKER_TRAINER_TELEMETRY_CUDA_STEP_TIMER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "worker/ring/step_ring.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// Events in the streams of one device, kept for use again. Thread-compatible.
class StreamEvents {
 public:
  using Event = int;

  virtual ~StreamEvents() = default;

  // An event behind all that the calling thread's current stream has to do so far; nothing if
  // that stream is being captured.
  virtual std::optional<Event> Record() = 0;

  virtual bool HasPassed(Event event) = 0;
  virtual void Wait(Event event) = 0;

  // From one to another that have both passed; 0 if they did in the other order.
  virtual uint64_t NanosBetween(Event from, Event to) = 0;

  // It is not used any more.
  virtual void Release(Event event) = 0;

  // Floats of the host that a stream can copy to while the CPU goes on.
  virtual at::Tensor HostFloats(int64_t count) = 0;
};

class CudaStepTimer : public StepTimer {
 public:
  // `ring` outlives this. `clock`: CLOCK_MONOTONIC in nanoseconds.
  CudaStepTimer(StepRingWriter& ring, std::unique_ptr<StreamEvents> events,
                std::function<uint64_t()> clock = MonotonicNanos);

  void Enter(Phase phase, int64_t step) override;
  void ShowEvaluation(int64_t steps, int64_t done, int64_t all) override {
    ring_.ShowEvaluation(static_cast<uint64_t>(steps), static_cast<uint32_t>(done),
                         static_cast<uint32_t>(all));
  }
  void EndStep(const StepResult& result) override;
  std::vector<StepRecord> TakeFinished() override;
  void Flush() override;

 private:
  // The begin of a phase.
  struct Mark {
    Phase phase;
    StreamEvents::Event event;
  };
  struct Step {
    StepRecord record;  // Without times, loss and grad_norm.
    std::vector<Mark> marks;
    uint64_t asked_ns = 0;  // When the first mark was.
    StreamEvents::Event end = 0;
    at::Tensor scalars;  // On the host: loss and grad_norm.
    bool has_grad_norm = false;
  };

  // Finishes the steps whose events have passed.
  void Collect();
  // The oldest one, whose events have passed.
  void FinishOldest();
  uint64_t StartOf(const Step& step, uint64_t total_ns);

  StepRingWriter& ring_;
  const std::unique_ptr<StreamEvents> events_;
  const std::function<uint64_t()> clock_;
  Step current_;
  std::deque<Step> ended_;                // Oldest first.
  std::vector<at::Tensor> free_scalars_;  // For use again.
  std::vector<StepRecord> finished_;
  // The first event of the step finished last, and when it passed.
  std::optional<StreamEvents::Event> anchor_;
  uint64_t anchor_ns_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_CUDA_STEP_TIMER_H_
