// Measures how long a rank that runs the job's own program has been quiet: no output and almost no
// processor time. Nothing else can be known of a program that reports no steps.
//
// Pure: times are arguments. Thread-compatible.
#ifndef WORKER_DAEMON_CORE_QUIET_TIME_H_
#define WORKER_DAEMON_CORE_QUIET_TIME_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace paceline {

class QuietTime {
 public:
  // A program that only waits still has threads that wake up now and then: less than this share of
  // one processor counts as idle. So does less than one tick, the kernel's resolution.
  static constexpr double kIdleShare = 0.01;
  static constexpr absl::Duration kTick = absl::Milliseconds(10);

  // `patience`: how long a rank must be quiet before it is reported.
  explicit QuietTime(absl::Duration patience)
      : interval_(std::clamp(patience / 10, absl::Milliseconds(100), absl::Seconds(10))) {}

  // When to look next; InfinitePast before the first look.
  absl::Time next_look() const { return looked_ + interval_; }

  // Takes the totals so far of all the rank's processes: bytes of output and processor time. A
  // total that fell also counts as activity. `was_asked`: processor time may have been used to
  // answer us, so it is ignored.
  void Look(absl::Time now, int64_t written, absl::Duration processor, bool was_asked = false) {
    const bool first = looked_ == absl::InfinitePast();
    const absl::Duration used = processor - processor_;
    const bool worked =
        used < absl::ZeroDuration() || used >= std::max(kTick, kIdleShare * (now - looked_));
    if (first || written != written_ || (worked && !was_asked)) {
      active_ = now;
    }
    looked_ = now;
    written_ = written;
    processor_ = processor;
  }

  // How long the rank had been quiet at the last look.
  absl::Duration quiet() const { return looked_ - active_; }

 private:
  absl::Duration interval_;
  absl::Time looked_ = absl::InfinitePast();
  absl::Time active_ = absl::InfinitePast();
  int64_t written_ = 0;
  absl::Duration processor_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_QUIET_TIME_H_
