#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

void DescribeStep(const StepResult& result, StepRecord* record) {
  record->step = static_cast<uint64_t>(result.step);
  record->samples = static_cast<uint64_t>(result.samples);
  record->tokens = static_cast<uint64_t>(result.tokens);
  record->workload = result.workload;
  record->learning_rate = result.learning_rate;
  record->averaging_group_size = static_cast<uint64_t>(result.averaging_group_size);
  record->wire_bytes = static_cast<uint64_t>(result.wire_bytes);
  record->masked = result.masked;
}

}  // namespace paceline
