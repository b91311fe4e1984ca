#include "worker/trainer/telemetry/cpu_step_timer.h"

#include <cmath>
#include <utility>

namespace paceline {

void CpuStepTimer::DoEnter(Phase phase, int64_t step) {
  ring_.Enter(phase, static_cast<uint64_t>(step));
}

void CpuStepTimer::EndStep(const StepResult& result) {
  StepRecord record = ring_.EndStep(static_cast<uint64_t>(result.step));
  DescribeStep(result, &record);
  record.loss = result.loss.item<float>();
  record.grad_norm = result.grad_norm.defined() ? result.grad_norm.item<float>() : NAN;
  ring_.Append(record);
  finished_.push_back(record);
}

std::vector<StepRecord> CpuStepTimer::TakeFinished() { return std::exchange(finished_, {}); }

}  // namespace paceline
