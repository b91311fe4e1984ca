// For how long a rank with a program of the job's own has been quiet: it wrote nothing, and took
// almost no processor time. That is all that can be known of a program which makes no steps.
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
  // A program that only waits has threads that wake up now and then: up to this share of one
  // processor counts as nothing. Nor can less than one tick of the kernel's be told.
  static constexpr double kIdleShare = 0.01;
  static constexpr absl::Duration kTick = absl::Milliseconds(10);

  // `patience`: when a quiet rank is told of.
  explicit QuietTime(absl::Duration patience)
      : pace_(std::clamp(patience / 10, absl::Milliseconds(100), absl::Seconds(10))) {}

  // When to look next; the infinite past before the first look.
  absl::Time next_look() const { return looked_ + pace_; }

  // Takes in what its processes have done by now, in all: bytes of output, and processor time.
  // Less of either than before means that something has changed, too. `was_asked`: it may have used
  // processor time for us, which counts as nothing.
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

  // As of the last look.
  absl::Duration quiet() const { return looked_ - active_; }

 private:
  absl::Duration pace_;
  absl::Time looked_ = absl::InfinitePast();
  absl::Time active_ = absl::InfinitePast();
  int64_t written_ = 0;
  absl::Duration processor_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_QUIET_TIME_H_
