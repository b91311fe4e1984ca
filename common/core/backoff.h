// Growing, bounded, jittered delays between attempts of something that fails.
//
// The n-th delay is between half and all of min(max, initial * factor^n), so that many clients of a
// lost server do not return at the same moment.
//
// Thread-compatible.
#ifndef COMMON_CORE_BACKOFF_H_
#define COMMON_CORE_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace paceline {

class Backoff {
 public:
  struct Options {
    absl::Duration initial = absl::Milliseconds(100);
    absl::Duration max = absl::Seconds(5);
    double factor = 2.0;
  };

  Backoff(Options options, uint64_t seed) : options_(options), random_(seed) {}

  // The delay before the next attempt.
  absl::Duration Next() {
    if (next_ == absl::ZeroDuration()) next_ = options_.initial;
    const absl::Duration whole = std::min(next_, options_.max);
    next_ = std::min(options_.max, whole * options_.factor);
    return whole * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  }

  // Call after a success: the next delay is the first one again.
  void Reset() { next_ = absl::ZeroDuration(); }

 private:
  const Options options_;
  std::mt19937_64 random_;
  absl::Duration next_ = absl::ZeroDuration();
};

}  // namespace paceline

#endif  // COMMON_CORE_BACKOFF_H_
