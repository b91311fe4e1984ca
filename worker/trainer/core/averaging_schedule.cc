#include "worker/trainer/core/averaging_schedule.h"

namespace paceline {

bool AveragingSchedule::Divides(int64_t period, int64_t step) const {
  return (kind == Kind::kPeriodic ? step - warmup_steps : step) % period == 0;
}

std::optional<int> AveragingSchedule::LevelAt(int64_t step) const {
  if (step < warmup_steps) return std::nullopt;
  for (auto level = static_cast<int>(periods.size()) - 1; level >= 0; --level) {
    if (Divides(periods[static_cast<size_t>(level)], step)) return level;
  }
  return std::nullopt;
}

bool AveragingSchedule::IsBoundary(int64_t step) const {
  return !periods.empty() && Divides(periods.back(), step);
}

}  // namespace paceline
