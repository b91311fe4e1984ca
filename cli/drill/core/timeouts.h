// Whether a job's timeouts fit what a drill has measured, and which would.
//
// Pure.
#ifndef CLI_DRILL_CORE_TIMEOUTS_H_
#define CLI_DRILL_CORE_TIMEOUTS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace paceline {

// The keys of the job file.
struct DrillTimeouts {
  absl::Duration stall_warning;
  absl::Duration hang;
  absl::Duration collective;
  absl::Duration startup;
  absl::Duration give_up;
};

// The longest of each over all runs of a drill.
struct MeasuredTimes {
  absl::Duration step;         // Of undisturbed runs, without the first two.
  absl::Duration first_step;   // Of a process that has taken a lost rank's place.
  absl::Duration until_first;  // From the submission to the first step.
  absl::Duration rejoin;       // From a loss until all ranks trained again.
};

struct TimeoutLine {
  std::string key;
  absl::Duration given;
  absl::Duration least;     // Shorter than this does not fit.
  absl::Duration proposed;  // In an order that the controller takes.
  std::string seen;         // "a step of 0.35 s".

  bool is_too_short() const { return given < least; }
};

// `replaces`: the job has recovery.max_failures, without which a hang is not looked for, and nobody
// waits for lost ranks.
std::vector<TimeoutLine> JudgeTimeouts(const DrillTimeouts& given, const MeasuredTimes& seen,
                                       bool replaces);

// "0.35 s", "12 s", "3 min 12 s".
std::string SpanText(absl::Duration span);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_TIMEOUTS_H_
