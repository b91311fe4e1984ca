#include "worker/daemon/core/sample_rate.h"

#include <algorithm>

namespace paceline {

void SampleRate::Add(absl::Time end, absl::Duration length, int64_t samples) {
  steps_.push_back({end - length, end, samples});
  while (steps_.front().end < end - kWindow || steps_.size() > kMaxSteps) steps_.pop_front();
}

double SampleRate::PerSecond(absl::Time now) const {
  if (steps_.empty()) return 0;
  int64_t samples = 0;
  for (const Step& step : steps_) samples += step.samples;
  // A step in progress is given the time that the last one took before it counts as slow.
  const Step& last = steps_.back();
  const absl::Time expected = last.end + (last.end - last.start);
  const absl::Duration span =
      last.end - steps_.front().start + std::max(absl::ZeroDuration(), now - expected);
  return span > absl::ZeroDuration() ? static_cast<double>(samples) / absl::ToDoubleSeconds(span)
                                     : 0;
}

}  // namespace paceline
