// How fast one peer's messages are read: as fast as they come, until what they cost has used up a
// budget that fills again with time. A peer that says more waits; nothing of it is lost.
//
// Pure: time is an argument. Thread-compatible.
#ifndef CONTROLLER_CORE_REQUESTS_READ_PACE_H_
#define CONTROLLER_CORE_REQUESTS_READ_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace paceline {

class ReadPace {
 public:
  struct Options {
    double per_second = 1;
    double burst = 1;  // What may be spent at once after a rest.
  };

  explicit ReadPace(const Options& options) : options_(options), left_(options.burst) {}

  // A message of this cost has been read: how long until the next one may be.
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

#endif  // CONTROLLER_CORE_REQUESTS_READ_PACE_H_
