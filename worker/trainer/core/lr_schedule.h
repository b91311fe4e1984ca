// The learning rate of each step.
//
// During a warm-up of w steps, step s has peak * (s + 1) / w. After it, with n = s - w and
// m = steps - w steps of decay:
//   constant  peak
//   cosine    peak * (f + (1 - f) * (1 + cos(pi * n / (m - 1))) / 2): the peak at the first
//             step after the warm-up, peak * f at the last step and after it
//   step      peak * gamma ^ floor(n / every)
#ifndef WORKER_TRAINER_CORE_LR_SCHEDULE_H_
#define WORKER_TRAINER_CORE_LR_SCHEDULE_H_

#include <cstdint>

namespace paceline {

struct LrSchedule {
  enum class Kind { kConstant, kCosine, kStep };

  double peak = 0;
  int64_t steps = 1;         // The cosine ends with these.
  int64_t warmup_steps = 0;  // Less than `steps`.
  Kind kind = Kind::kConstant;
  double final_ratio = 0;  // f; for kCosine.
  int64_t every = 1;       // For kStep.
  double gamma = 0.1;      // For kStep.
};

// Requires: step >= 0.
double LearningRate(const LrSchedule& schedule, int64_t step);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_LR_SCHEDULE_H_
