// Measures each step of the training loop and writes its record into the step ring.
//
// On a CPU these are the times between the calls. On CUDA the calls only record events on the
// stream, which are read some steps later: nothing waits for the device, and a step's record is
// finished when its events have passed.
#ifndef WORKER_TRAINER_TELEMETRY_STEP_TIMER_H_
#define WORKER_TRAINER_TELEMETRY_STEP_TIMER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "worker/ring/step_ring.h"

namespace paceline {

// Facts about a step besides its times. loss and grad_norm are float scalars on the device.
struct StepResult {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  double workload = 0;
  at::Tensor loss;
  at::Tensor grad_norm;  // Undefined: not computed at this step; NaN in the record.
  float learning_rate = 0;
  int averaging_group_size = 0;
  int64_t wire_bytes = 0;
  bool masked = false;
};

// Copies everything to `record` that is on the host: not loss and grad_norm.
void DescribeStep(const StepResult& result, StepRecord* record);

// Thread-compatible, except that Enter may be called by the thread that runs a backward pass.
class StepTimer {
 public:
  virtual ~StepTimer() = default;

  // Like StepRingWriter::Enter. Tells the listener first, on the same thread.
  void Enter(Phase phase, int64_t step) {
    if (listener_) listener_(phase);
    DoEnter(phase, step);
  }

  // Hears of each phase that is entered from now on. Null: nobody does. Not in a backward pass.
  void SetListener(std::function<void(Phase)> listener) { listener_ = std::move(listener); }

  // Like StepRingWriter::ShowEvaluation.
  virtual void ShowEvaluation(int64_t steps, int64_t done, int64_t all) = 0;

  // Ends the step.
  virtual void EndStep(const StepResult& result) = 0;

  // Records finished since the last call, oldest first. They are already in the ring.
  virtual std::vector<StepRecord> TakeFinished() = 0;

  // Waits until the records of all ended steps are finished.
  virtual void Flush() = 0;

 private:
  virtual void DoEnter(Phase phase, int64_t step) = 0;

  std::function<void(Phase)> listener_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_STEP_TIMER_H_
