// Saves that are asked for: by a user, by time, or because a job is to be stopped.
//
// An order has a number above all before it and is given to one generation; all its ranks save
// after a step that they agree on. One order is pending at a time: who asks for another gets that,
// but one for now takes the place of one that was not, and one that names a directory of one that
// names none or another.
// It ends COMPLETE with its checkpoint, or FAILED: when a rank says so, when the generation ends,
// or when somebody waits for it to stop the job and kStopPatience has passed.
//
// A job that is stopped when it is saved trains on while its save fails for a reason that may pass,
// such as a full disk, or while its ranks hold their state after the last step (saving.h). The save
// is ordered again after a growing pause; after kHoldPatience (common/core/hold_pause.h) the job is
// stopped without.
#ifndef CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_
#define CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// A job that is to be stopped waits at most so long for its checkpoint.
inline constexpr absl::Duration kStopPatience = absl::Minutes(10);

// CHECKPOINTS_OFF, JOB_NOT_RUNNING.
std::optional<Refusal> RefuseSave(const Job& job);

bool IsOrderPending(const Job& job);

// Directories that orders have named are kept for so many of the newest (JobCheckpoints::places).
inline constexpr size_t kMaxPlaces = 16;

// Orders a save unless one is pending that does as well. `directory`: where to; empty: the job's
// own, or where the order goes whose place it takes. Requires: RefuseSave has no objection.
void OrderSave(Job& job, bool at_once, std::string reason, Moment now,
               const std::string& directory = "");

// The order has ended; nothing happens unless it is the pending one.
void CompleteOrder(Job& job, int64_t number, int64_t step);
void FailOrder(Job& job, int64_t number, std::string error, bool may_pass = false);

// Whether another try may succeed: a full disk, a missing permission, an error of the file system.
bool MayPass(SaveFailure failure);

// Orders a save, and stops the job when it has ended. Requires: RefuseSave has no objection.
void StopWhenSaved(Job& job, const std::string& reason, absl::Duration grace, Moment now);

// Orders a save, and queues the job again (RequeueJob) when it is complete; if the save fails, the
// job trains on. `leaves`: the node for which it happens; may be empty. Requires: RefuseSave has no
// objection.
void RequeueWhenSaved(Job& job, const std::string& reason, const NodeName& leaves, Moment now);

// The job need not leave the node any more: it trains on when the save has ended.
JobChange WithdrawRequeue(Job& job, const NodeName& node);

// A rank's process was asked to end by somebody else: as StopWhenSaved, or a stop at once when
// there is nothing to save.
JobChange TakeRequestToEnd(Job& job, const RankState& rank, Moment now);

// Stops a job whose order was waited for and has ended, or must be waited for no longer; or queues
// it again; or orders the save again.
JobChange StopIfSaved(Job& job, Moment now);

// When StopIfSaved has something to do by the passing of time; steady, infinite: never.
absl::Time StopDeadline(const Job& job);

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

#endif  // CONTROLLER_CORE_CHECKPOINT_SAVE_ORDER_H_
