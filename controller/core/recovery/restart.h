// From what a job starts, and whether it starts again after it failed or ended.
//
// A generation starts from the job's newest complete checkpoint since its start point, else from
// the start point's checkpoint, else from the beginning. A job ended by a rank's failure is
// restarted by itself, max_restarts times, unless its input was bad or somebody had asked for its
// end. A checkpoint that could not be used is marked damaged; the spec says whether the job may
// then go on from the one before (checkpoint.on_damage).
#ifndef CONTROLLER_CORE_RECOVERY_RESTART_H_
#define CONTROLLER_CORE_RECOVERY_RESTART_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// Directory of the checkpoint that the job would start from now; empty: from the beginning.
std::string ChooseStart(const Job& job);
// Steps done there; 0: at the beginning. Nothing: the directory's name does not say.
std::optional<int64_t> StepOfStart(const Job& job);

// A generation is about to start from there: sets `restored_from`, and drops an evaluation of steps
// that will be made again.
void TakeStart(Job& job);

// Decides what follows when a generation has failed and its trainers are gone. True: the job starts
// again, for the reason in restart_reason. False: it has failed, and its reason is completed.
bool DecideRestart(Job& job);

// A queued job's newest checkpoint has proved damaged: the job fails, unless it may go on from an
// earlier one and there is one. It never starts from the beginning for that.
void FailForDamage(Job& job, const Checkpoint& damaged, Moment now);

// Why the job cannot be resumed: JOB_NOT_ENDED; NO_CHECKPOINT unless `has_from`.
std::optional<Refusal> RefuseResume(const Job& job, bool has_from);

// Puts an ended job back into the queue, as `request`. `from`: the directory of a checkpoint from
// which a new line of training begins; empty: the job goes on with its own line (ChooseStart).
// Requires: RefuseResume has no objection.
void ResumeJob(Job& job, JobRequest request, const std::string& from);

// Restoring jobs from a backup. What happened after the backup is unknown: generations were made
// and given up, and their trainers may still run. So nothing from before is relied on. A job that
// had ranks is queued again, and its trainers are stopped (those of later generations too, since no
// plan names them). Its directory is scanned, so that it goes on from the newest checkpoint there,
// even one made after the backup. Its next generation has a number that none has had.

inline constexpr char kRestoredReason[] =
    "the controller's state was restored from a backup: what happened since then is not known";

// Call it once for each job, before Cluster::Restore. `used`: the greatest generation ever used.
void TakeUpAfterRestoration(Job& job, Generation used, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RESTART_H_
