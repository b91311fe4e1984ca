// How fast one peer's messages are read: as they come, until their cost has used up a budget that
// refills with time. A peer that sends more waits; nothing is lost.
//
// Pure: time is an argument. Thread-compatible.
#ifndef CONTROLLER_CORE_REQUESTS_READ_THROTTLE_H_
#define CONTROLLER_CORE_REQUESTS_READ_THROTTLE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace paceline {

class ReadThrottle {
 public:
  struct Options {
    double per_second = 1;
    double burst = 1;  // What can be spent at once after a rest.
  };

  explicit ReadThrottle(const Options& options) : options_(options), left_(options.burst) {}

  // A message of this cost was read. Returns how long to wait before the next one.
  absl::Duration Spend(double cost, absl::Time now) {
    const double rested = absl::ToDoubleSeconds(now - at_) * options_.per_second;
    left_ = std::min(options_.burst, left_ + std::max(0.0, rested)) - cost;
    at_ = now;
    return left_ >= 0 ? absl::ZeroDuration() : absl::Seconds(-left_ / options_.per_second);
  }

 private:
  const Options options_;
  double left_;
  absl::Time at_ = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_READ_THROTTLE_H_
