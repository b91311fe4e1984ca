#include "worker/trainer/core/lr_schedule.h"

#include <algorithm>
#include <cmath>

namespace paceline {

double LearningRate(const LrSchedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  const int64_t done = step - schedule.warmup_steps;
  switch (schedule.kind) {
    case LrSchedule::Kind::kConstant:
      break;
    case LrSchedule::Kind::kCosine: {
      const int64_t last = schedule.steps - schedule.warmup_steps - 1;
      const double share = done >= last ? (last > 0 || done > 0 ? 1.0 : 0.0)
                                        : static_cast<double>(done) / static_cast<double>(last);
      const double ratio = schedule.final_ratio;
      return schedule.peak * (ratio + (1 - ratio) * (1 + std::cos(M_PI * share)) / 2);
    }
    case LrSchedule::Kind::kStep: {
      const int64_t reductions = done / schedule.every;
      return schedule.peak * std::pow(schedule.gamma, static_cast<double>(reductions));
    }
  }
  return schedule.peak;
}

double RankFactor(const LrSchedule& schedule, int ranks) {
  const double ratio = static_cast<double>(ranks) / schedule.full_ranks;
  switch (schedule.rank_scale) {
    case LrSchedule::RankScale::kNone:
      break;
    case LrSchedule::RankScale::kLinear:
      return ratio;
    case LrSchedule::RankScale::kSqrt:
      return std::sqrt(ratio);
  }
  return 1;
}

}  // namespace paceline
