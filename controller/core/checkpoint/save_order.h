// Saves that are asked for: by a user, by time, or because a job is to be stopped.
//
// An order has a number above all earlier ones and is given to one generation; all ranks save after
// a step that they agree on. One order is pending at a time, and who asks for another gets that
// one. But an order to save now replaces one that can wait, and an order that names a directory
// replaces one that names another or none. An order ends COMPLETE with its checkpoint, or FAILED:
// when a rank says so, when the generation ends, or when a stop waits for it and kStopPatience has
// passed.
//
// A job that is to stop once it is saved trains on while its save fails for a reason that may pass,
// such as a full disk, or while its ranks hold their state after the last step (saving.h). The save
// is ordered again after a growing pause; after kHoldPatience (common/core/hold_pause.h) the job is
// stopped unsaved.
#ifndef CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_
#define CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// How long a job that is to be stopped waits for its checkpoint.
inline constexpr absl::Duration kStopPatience = absl::Minutes(10);

// CHECKPOINTS_OFF or JOB_NOT_RUNNING, if one applies.
std::optional<Refusal> RefuseSave(const Job& job);

bool IsOrderPending(const Job& job);

// How many of the newest directories that orders have named are kept (JobCheckpoints::directories).
inline constexpr size_t kMaxOrderDirectories = 16;

// Orders a save unless the pending one does as well. `directory`: where to save; empty: the job's
// own, or that of the order that is replaced. Requires: RefuseSave has no objection.
void OrderSave(Job& job, bool at_once, std::string reason, Moment now,
               const std::string& directory = "");

// The order has ended. Nothing happens unless it is the pending one.
void CompleteOrder(Job& job, int64_t number, int64_t step);
void FailOrder(Job& job, int64_t number, std::string error, bool may_pass = false);

// Whether another try may succeed: a full disk, a missing permission, an error of the file system.
bool MayPass(SaveFailure failure);

// Orders a save, and stops the job when the order has ended. Requires: RefuseSave has no objection.
void StopWhenSaved(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// Orders a save, and queues the job again (RequeueJob) when it is complete; if the save fails, the
// job trains on. `leaves`: the node that the job must leave; may be empty. Requires: RefuseSave has
// no objection.
void RequeueWhenSaved(Job& job, const std::string& reason, const NodeName& leaves, Moment now);

// The job need not leave the node any more: it trains on when the save has ended.
JobChange WithdrawRequeue(Job& job, const NodeName& node);

// Somebody else asked a rank's process to end: does what StopWhenSaved does, or stops the job at
// once if there is nothing to save.
JobChange TakeRequestToEnd(Job& job, const RankState& rank, Moment now);

// If the order that the job waited for has ended, or its time is up: stops the job, queues it
// again, or orders the save again.
JobChange StopIfSaved(Job& job, Moment now);

// When StopIfSaved next acts because time has passed; steady, infinite: never.
absl::Time StopDeadline(const Job& job);

// When a running job is saved by time.
//
// With `every`, the next save is due that long after the latest one was ordered or complete. With
// `auto_interval`, the interval is the one that loses the least, by the first-order formula of J.
// W. Young ("A first order approximation to the optimum checkpoint interval", Comm. ACM 17(9),
// 1974), which J. T. Daly refines (Future Gener. Comput. Syst. 22(3), 2006):
//
//   interval = sqrt(2 C M)
//
// C is how long the latest save held up the training, M the mean time between failures of the job.
// A job sees too few failures to go by them alone, so they are added to a prior of one failure in
// 1000 node-hours:
//
//   M = (1000 h + node-hours of the job) / (1 + failures of the job) / nodes of the job

inline constexpr absl::Duration kPriorNodeTime = absl::Hours(1000);
// The first automatic save comes this early, to measure what a save costs.
inline constexpr absl::Duration kFirstAutoSave = absl::Seconds(60);
inline constexpr absl::Duration kMinAutoInterval = absl::Seconds(10);
inline constexpr absl::Duration kMaxAutoInterval = absl::Hours(1);

// Requires: nodes > 0.
absl::Duration MeanTimeBetweenFailures(int64_t failures, absl::Duration node_time, int nodes);

// The interval between saves. Never so short that saves, which take `durable` to complete, would
// follow one another without a pause.
absl::Duration AutoInterval(absl::Duration blocked, absl::Duration mean_time_between_failures,
                            absl::Duration durable);

// Decides anew how often to save and when next. Call it when a save was ordered or is complete, and
// when the job begins to train.
void PlanNextSave(Job& job, Moment now);

// Orders a save if one is due.
JobChange TickSaving(Job& job, Moment now);

// When TickSaving has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextSaveDeadline(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_
