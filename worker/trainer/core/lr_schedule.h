// The learning rate of each step.
//
// During a warm-up of w steps, step s has peak * (s + 1) / w. After it, with n = s - w and
// m = steps - w steps of decay:
//   constant  peak
//   cosine    peak * (f + (1 - f) * (1 + cos(pi * n / (m - 1))) / 2): the peak at the first
//             step after the warm-up, peak * f at the last step and after it
//   step      peak * gamma ^ floor(n / every)
//
// A job that trains with another number of ranks than it asked for, each with its own batch, makes
// steps of more or fewer samples. On request the rate follows these: proportionally (Goyal et al.,
// "Accurate, large minibatch SGD", arXiv:1706.02677), or by the square root, which keeps the
// variance of an update (Krizhevsky, arXiv:1404.5997; for Adam, Malladi et al., arXiv:2205.10287).
#ifndef WORKER_TRAINER_CORE_LR_SCHEDULE_H_
#define WORKER_TRAINER_CORE_LR_SCHEDULE_H_

#include <cstdint>

namespace paceline {

struct LrSchedule {
  enum class Kind { kConstant, kCosine, kStep };
  enum class RankScale { kNone, kLinear, kSqrt };

  double peak = 0;
  int64_t steps = 1;         // The cosine ends with these.
  int64_t warmup_steps = 0;  // Less than `steps`.
  Kind kind = Kind::kConstant;
  double final_ratio = 0;  // f; for kCosine.
  int64_t every = 1;       // For kStep.
  double gamma = 0.1;      // For kStep.
  RankScale rank_scale = RankScale::kNone;
  int full_ranks = 1;  // With so many `peak` is meant.
};

// Requires: step >= 0.
double LearningRate(const LrSchedule& schedule, int64_t step);

// The factor for a step that so many ranks make together; 1 where the rate does not follow them.
// Requires: ranks > 0.
double RankFactor(const LrSchedule& schedule, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_LR_SCHEDULE_H_
