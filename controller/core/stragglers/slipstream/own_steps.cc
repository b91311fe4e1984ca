#include "controller/core/stragglers/slipstream/own_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline {
namespace {

const double kGoldenRatio = (std::sqrt(5.0) - 1) / 2;

}  // namespace

OwnSteps::OwnSteps(const OwnTimes& times, double freezing_share)
    : ranks_(times.ranks), steps_(times.steps), own_(times.seconds.size()) {
  if (freezing_share > 0) frozen_.resize(own_.size());
  int64_t stalls = 0;
  double speeds = 0;
  double typical_speeds = 0;
  std::vector<float> sorted(static_cast<size_t>(steps_));
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto begin = own_.begin() + static_cast<std::ptrdiff_t>(Index(rank, 0));
    for (int step = 0; step < steps_; ++step) {
      const size_t from = static_cast<size_t>(step) * static_cast<size_t>(ranks_);
      begin[step] = times.seconds[from + static_cast<size_t>(rank)];
    }
    std::copy_n(begin, steps_, sorted.begin());
    const auto middle = sorted.begin() + steps_ / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    const double median = *middle;
    medians_.push_back(median);
    typical_speeds += 1 / median;
    speeds += steps_ / std::accumulate(begin, begin + steps_, 0.0);
    if (frozen_.empty()) continue;
    for (int step = 0; step < steps_; ++step) {
      const size_t at = Index(rank, step);
      if (own_[at] <= kStall * median) continue;
      const double place = static_cast<double>(++stalls) * kGoldenRatio;
      if (place - std::floor(place) < freezing_share) {
        frozen_[at] = own_[at] - static_cast<float>(median);
      }
    }
  }
  typical_s_ = ranks_ / typical_speeds;
  ideal_s_ = ranks_ / speeds;
}

size_t OwnSteps::Index(int rank, int64_t step) const {
  return static_cast<size_t>(rank) * static_cast<size_t>(steps_) +
         static_cast<size_t>(step % steps_);
}

OwnStep OwnSteps::At(int rank, int64_t step) const {
  const size_t at = Index(rank, step);
  return {own_[at], frozen_.empty() ? 0 : frozen_[at]};
}

}  // namespace paceline
