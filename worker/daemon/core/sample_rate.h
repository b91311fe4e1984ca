// Samples per second over the steps that ended in the last two seconds.
//
// The first sample counts from the end of the step before it. When steps are long, this gives the
// rate of the last step. Thread-compatible.
#ifndef WORKER_DAEMON_CORE_SAMPLE_RATE_H_
#define WORKER_DAEMON_CORE_SAMPLE_RATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace paceline {

class SampleRate {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(2);
  // Limit on steps kept, whatever their times say: a ring may contain garbage.
  static constexpr size_t kMaxSteps = 4096;

  // Adds a step that ended at `end` and took `length`. Call in the order of the ends.
  void Add(absl::Time end, absl::Duration length, int64_t samples);

  // Samples per second at `now`. Falls towards 0 while no step ends.
  double PerSecond(absl::Time now) const;

 private:
  struct Step {
    absl::Time start;
    absl::Time end;
    int64_t samples;
  };
  // Invariant: all but the last ended within kWindow of the last one's end; at most kMaxSteps.
  std::deque<Step> steps_;
};

inline void SampleRate::Add(absl::Time end, absl::Duration length, int64_t samples) {
  steps_.push_back({end - length, end, samples});
  while (steps_.front().end < end - kWindow || steps_.size() > kMaxSteps) steps_.pop_front();
}

inline double SampleRate::PerSecond(absl::Time now) const {
  if (steps_.empty()) return 0;
  int64_t samples = 0;
  for (const Step& step : steps_) samples += step.samples;
  // A step in progress only counts as slow once it takes longer than the last one.
  const Step& last = steps_.back();
  const absl::Time expected = last.end + (last.end - last.start);
  const absl::Duration span =
      last.end - steps_.front().start + std::max(absl::ZeroDuration(), now - expected);
  return span > absl::ZeroDuration() ? static_cast<double>(samples) / absl::ToDoubleSeconds(span)
                                     : 0;
}

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SAMPLE_RATE_H_
