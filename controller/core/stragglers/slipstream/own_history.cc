#include "controller/core/stragglers/slipstream/own_history.h"

#include <algorithm>

namespace paceline {

OwnHistory::OwnHistory(int ranks)
    : window_(static_cast<size_t>(LadderWindow(ranks))), ranks_(static_cast<size_t>(ranks)) {}

void OwnHistory::Add(int rank, double own_s) {
  if (rank < 0 || rank >= static_cast<int>(ranks_.size()) || !(own_s >= 0) || own_s > kMaxOwnS) {
    return;
  }
  Rank& own = ranks_[static_cast<size_t>(rank)];
  const auto seconds = static_cast<float>(own_s);
  if (own.median > 0 && seconds > static_cast<float>(kStall) * own.median) ++stalls_;
  if (own.ring.size() < window_) {
    own.ring.push_back(seconds);
  } else {
    own.ring[own.next] = seconds;
    own.next = (own.next + 1) % window_;
  }
  if (++own.since_median < kFirstSteps) return;
  own.since_median = 0;
  sorted_ = own.ring;
  const auto middle = sorted_.begin() + static_cast<std::ptrdiff_t>(sorted_.size() / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.end());
  own.median = *middle;
}

OwnTimes OwnHistory::Take() const {
  size_t steps = window_;
  for (const Rank& rank : ranks_) steps = std::min(steps, rank.ring.size());
  OwnTimes times;
  times.ranks = static_cast<int>(ranks_.size());
  times.steps = static_cast<int>(steps);
  times.seconds.resize(steps * ranks_.size());
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    const size_t size = rank.ring.size();
    for (size_t step = 0; step < steps; ++step) {
      const size_t at = (rank.next + size - steps + step) % size;
      times.seconds[step * ranks_.size() + r] = rank.ring[at];
    }
  }
  return times;
}

}  // namespace paceline
