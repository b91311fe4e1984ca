#include "slipstream/quorum.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr double kGrace = 0.1;  // Of a step.
constexpr double kPausesPerGrace = 4;
constexpr absl::Duration kShortestPause = absl::Microseconds(200);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);

}  // namespace

bool Quorum::TimeIsUp(absl::Time now, absl::Duration step) const {
  return majority_since_.has_value() && now - *majority_since_ >= Grace(step);
}

bool Quorum::Poll(int ready, int coming, int time_is_up, bool waits_for_all, absl::Time now) {
  const bool majority = IsMajority(ready);
  if (majority && !majority_since_) majority_since_ = now;
  const bool waits = waits_for_all || !majority || (coming > 0 && !IsMajority(time_is_up));
  const bool made = ready == ranks_ || !waits;
  if (made) majority_since_.reset();
  return made;
}

absl::Duration Quorum::Grace(absl::Duration step) { return kGrace * step; }

absl::Duration Quorum::Pause(absl::Duration step) {
  return std::clamp(Grace(step) / kPausesPerGrace, kShortestPause, kLongestPause);
}

}  // namespace paceline
