// Which part of the model is averaged when, where outer steps are streamed (DiLoCo's fragments) or
// overlap with the training.
//
//   after step  s                      s + delay                  s + interval
//               │ an average of the    │ it is taken up           │ that of the next
//               │ fragment begins      │                          │ fragment begins
//               ╰─ training goes on ───╯
//
// An average is taken up before the next one begins, so that at most one is under way. With a delay
// of 0 it begins and is taken up after the same step. In a format below fp32 it has two exchanges,
// of which the second one begins half-way.
//
// Source: Streaming DiLoCo (arXiv 2501.18512).
//
// Pure.
#ifndef WORKER_TRAINER_CORE_STREAM_SCHEDULE_H_
#define WORKER_TRAINER_CORE_STREAM_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/trainer/core/averaging_schedule.h"

namespace paceline {

struct StreamSchedule {
  // Of one level, whose period is the interval between two averages: that of a fragment divided by
  // their number.
  AveragingSchedule begins;
  int64_t fragments = 1;
  int64_t delay = 0;

  bool BeginsAfter(int64_t step) const { return begins.LevelAt(step).has_value(); }
  // Steps from an average's beginning until the second of its two exchanges begins. The first one
  // has the longer half: it also waits for ranks that are late.
  int64_t turn() const { return (delay + 1) / 2; }
  // The fragment of the average that began after this step.
  size_t FragmentOf(int64_t begun) const;
};

// A run of the model's parameters, and of their values as one vector.
struct Fragment {
  size_t first = 0;  // Index of the first parameter.
  size_t end = 0;    // Behind the last one.
  int64_t offset = 0;
  int64_t values = 0;
};

// Cuts parameters with these numbers of values into so many runs of about equal size. None is
// empty, unless there are fewer parameters.
std::vector<Fragment> CutIntoFragments(const std::vector<int64_t>& sizes, int64_t fragments);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_STREAM_SCHEDULE_H_
