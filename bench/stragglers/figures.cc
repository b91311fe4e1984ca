#include "bench/stragglers/figures.h"

#include <cmath>

namespace paceline::detect {

int64_t Delays::count() const {
  int64_t count = 0;
  for (const auto& [steps, times] : counts_) count += times;
  return count;
}

int64_t Delays::Quantile(double share) const {
  auto left = static_cast<int64_t>(std::ceil(share * static_cast<double>(count())));
  for (const auto& [steps, times] : counts_) {
    left -= times;
    if (left <= 0) return steps;
  }
  return -1;
}

void Figures::Merge(const Figures& other) {
  histories += other.histories;
  rank_steps += other.rank_steps;
  positives += other.positives;
  found += other.found;
  right_suspects += other.right_suspects;
  wrong_suspects += other.wrong_suspects;
  transients += other.transients;
  transients_found += other.transients_found;
  classed += other.classed;
  classed_right += other.classed_right;
  wrong_drains += other.wrong_drains;
  wrong_groups += other.wrong_groups;
  wrong_ends += other.wrong_ends;
  causes += other.causes;
  causes_right += other.causes_right;
  intervals += other.intervals;
  intervals_right += other.intervals_right;
  to_suspect.Merge(other.to_suspect);
  to_persistent.Merge(other.to_persistent);
}

}  // namespace paceline::detect
