// The step timer of a GPU rank: measures times on the device.
//
// Each call records an event on the current stream. A step's phases are the times between its
// events on the device, so that a phase is charged with what the device did, not with when the CPU
// asked for it. Events, and the step's scalars on their way to the host, are checked whenever the
// timer is called: a record is finished some steps later, and nothing ever waits, except Flush. The
// ring's live phase is the CPU's, at once.
//
// Device times are mapped to CLOCK_MONOTONIC, from which the device's clock drifts: a step begins
// as long after the previous one as the device says, but not before the CPU asked for its first
// event, and ends no later than the CPU saw that it had.
//
// Nothing can be timed on a stream that is being captured into a CUDA graph: phases entered
// meanwhile are charged to the previous one.
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

// Reusable events on one device's streams. Thread-compatible.
class StreamEvents {
 public:
  using Event = int;

  virtual ~StreamEvents() = default;

  // Records an event after all work so far on the calling thread's current stream; nothing if that
  // stream is being captured.
  virtual std::optional<Event> Record() = 0;

  virtual bool HasPassed(Event event) = 0;
  virtual void Wait(Event event) = 0;

  // Nanoseconds between two events that have passed; 0 if they passed in the other order.
  virtual uint64_t NanosBetween(Event from, Event to) = 0;

  // Makes the event available for reuse.
  virtual void Release(Event event) = 0;

  // Allocates host floats that a stream can copy to while the CPU goes on.
  virtual at::Tensor HostFloats(int64_t count) = 0;
};

class CudaStepTimer : public StepTimer {
 public:
  // `ring` must outlive this. `clock`: CLOCK_MONOTONIC in nanoseconds.
  CudaStepTimer(StepRingWriter& ring, std::unique_ptr<StreamEvents> events,
                std::function<uint64_t()> clock = MonotonicNanos);

  void ShowEvaluation(int64_t steps, int64_t done, int64_t all) override {
    ring_.ShowEvaluation(static_cast<uint64_t>(steps), static_cast<uint32_t>(done),
                         static_cast<uint32_t>(all));
  }
  void EndStep(const StepResult& result) override;
  std::vector<StepRecord> TakeFinished() override;
  void Flush() override;

 private:
  // The beginning of a phase.
  struct Mark {
    Phase phase;
    StreamEvents::Event event;
  };
  struct Step {
    StepRecord record;  // Without times, loss and grad_norm.
    std::vector<Mark> marks;
    uint64_t asked_ns = 0;  // When the CPU asked for the first mark.
    StreamEvents::Event end = 0;
    at::Tensor scalars;  // On the host: loss and grad_norm.
    bool has_grad_norm = false;
  };

  void DoEnter(Phase phase, int64_t step) override;

  // Finishes the steps whose events have passed.
  void Collect();
  // Finishes the oldest step, whose events must have passed.
  void FinishOldest();
  uint64_t StartOf(const Step& step, uint64_t total_ns);

  StepRingWriter& ring_;
  const std::unique_ptr<StreamEvents> events_;
  const std::function<uint64_t()> clock_;
  Step current_;
  std::deque<Step> ended_;                // Oldest first.
  std::vector<at::Tensor> free_scalars_;  // For reuse.
  std::vector<StepRecord> finished_;
  // The first event of the last finished step, and when it passed.
  std::optional<StreamEvents::Event> anchor_;
  uint64_t anchor_ns_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_CUDA_STEP_TIMER_H_
