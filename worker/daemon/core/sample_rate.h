// Samples per second over the steps that ended in the last two seconds.
//
// The first sample counts from the end of the step before it, so that long steps give a rate,
// too: it is that of the last step then. Thread-compatible.
#ifndef WORKER_DAEMON_CORE_SAMPLE_RATE_H_
#define WORKER_DAEMON_CORE_SAMPLE_RATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace paceline {

class SampleRate {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(2);
  // No more steps are kept, whatever their times: a ring may hold nonsense.
  static constexpr size_t kMaxSteps = 4096;

  // A step that ended at `end` and took `length`, in the order of their ends.
  void Add(absl::Time end, absl::Duration length, int64_t samples);

  // Falls towards 0 while no step ends.
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

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_SAMPLE_RATE_H_
