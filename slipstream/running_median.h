// The median of the latest durations: the usual time of something, regardless of occasional stalls.
//
// Thread-compatible.
#ifndef SLIPSTREAM_RUNNING_MEDIAN_H_
#define SLIPSTREAM_RUNNING_MEDIAN_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/time/time.h"

namespace paceline {

class RunningMedian {
 public:
  void Add(absl::Duration duration) {
    latest_[next_] = duration;
    next_ = (next_ + 1) % kLatest;
    size_ = std::min(size_ + 1, kLatest);
    std::array<absl::Duration, kLatest> sorted = latest_;
    auto* const middle = sorted.begin() + size_ / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + size_);
    median_ = *middle;
  }

  // Zero before the first one; of an even number, the greater of the middle two.
  absl::Duration median() const { return median_; }

 private:
  static constexpr size_t kLatest = 15;

  std::array<absl::Duration, kLatest> latest_;
  size_t next_ = 0;
  size_t size_ = 0;
  absl::Duration median_;
};

}  // namespace paceline

#endif  // SLIPSTREAM_RUNNING_MEDIAN_H_
