// When a running job is saved by time.
//
// With `every` the next save is due so long after the latest one, ordered or complete. With
// `auto_interval` the time between saves is the one that loses the least, by the first-order
// formula of J. W. Young ("A first order approximation to the optimum checkpoint interval",
// Comm. ACM 17(9), 1974), which J. T. Daly refines (Future Gener. Comput. Syst. 22(3), 2006):
//
//   interval = sqrt(2 C M)
//
// C is the time that the training stood still for the latest save, M the mean time between
// failures of the job. A job has seen too few failures to count them alone: they are added to a
// prior of one failure in 1000 node-hours, so that
//
//   M = (1000 h + node-hours of the job) / (1 + failures of the job) / nodes of the job
#ifndef CONTROLLER_CORE_SAVE_TIMING_H_
#define CONTROLLER_CORE_SAVE_TIMING_H_

#include <cstdint>

#include "absl/time/time.h"
#include "controller/core/job.h"

namespace paceline {

inline constexpr absl::Duration kPriorNodeTime = absl::Hours(1000);
// The first automatic save measures what one costs.
inline constexpr absl::Duration kFirstAutoSave = absl::Seconds(60);
inline constexpr absl::Duration kMinAutoInterval = absl::Seconds(10);
inline constexpr absl::Duration kMaxAutoInterval = absl::Hours(1);

// Requires: nodes > 0.
absl::Duration MeanTimeBetweenFailures(int64_t failures, absl::Duration node_time, int nodes);

// Never so short that saves, which take `durable` until they are complete, would follow one
// another without a pause.
absl::Duration AutoInterval(absl::Duration blocked, absl::Duration mean_time_between_failures,
                            absl::Duration durable);

// Decides anew how often and when next; after a save was ordered or complete, and when the job
// begins to train.
void PlanNextSave(Job& job, Moment now);

// Orders the save that is due.
JobChange TickSaving(Job& job, Moment now);

// When TickSaving has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextSaveDeadline(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SAVE_TIMING_H_
