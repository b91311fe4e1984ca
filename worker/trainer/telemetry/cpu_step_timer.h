// The step timer of a CPU rank: measures the times between the calls.
#ifndef WORKER_TRAINER_TELEMETRY_CPU_STEP_TIMER_H_
#define WORKER_TRAINER_TELEMETRY_CPU_STEP_TIMER_H_

#include <vector>

#include "worker/ring/step_ring.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

class CpuStepTimer : public StepTimer {
 public:
  // `ring` must outlive this.
  explicit CpuStepTimer(StepRingWriter& ring) : ring_(ring) {}

  void ShowEvaluation(int64_t steps, int64_t done, int64_t all) override {
    ring_.ShowEvaluation(static_cast<uint64_t>(steps), static_cast<uint32_t>(done),
                         static_cast<uint32_t>(all));
  }
  void EndStep(const StepResult& result) override;
  std::vector<StepRecord> TakeFinished() override;
  void Flush() override {}

 private:
  void DoEnter(Phase phase, int64_t step) override;

  StepRingWriter& ring_;
  std::vector<StepRecord> finished_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_CPU_STEP_TIMER_H_
