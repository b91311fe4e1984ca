// From what a job starts, and whether it does again after it failed or ended.
//
// A generation starts from the newest complete checkpoint of the job since its start point, else
// from the start point's, else from the beginning. A job that a rank's failure ended is restarted
// by itself, max_restarts times, unless its input was bad or somebody had asked for its end. A
// checkpoint that could not be used is marked damaged; whether the job may then go on from the one
// before, its spec says (checkpoint.on_damage).
#ifndef CONTROLLER_CORE_RECOVERY_RESTART_H_
#define CONTROLLER_CORE_RECOVERY_RESTART_H_

#include <optional>
#include <string>

#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// Directory of the checkpoint that the job would start from now; empty: from the beginning.
std::string ChooseStart(const Job& job);

// What follows from the failure of a generation whose trainers are gone. True: the job starts
// again, for the reason in restart_reason. False: it has failed; the reason is completed.
bool DecideRestart(Job& job);

// A queued job's newest checkpoint has turned out to be damaged: it fails, unless it may go on
// from the one before and there is one. It never starts over for that.
void FailForDamage(Job& job, const Checkpoint& damaged, Moment now);

// Why the job cannot be resumed: JOB_NOT_ENDED; NO_CHECKPOINT unless `has_from`.
std::optional<Refusal> RefuseResume(const Job& job, bool has_from);

// Puts an ended job back into the queue, as `request`. `from` is the directory of a checkpoint,
// from which a new line of training begins; empty: the job goes on with the line it has trained
// (ChooseStart). Requires: RefuseResume has no objection.
void ResumeJob(Job& job, JobRequest request, const std::string& from);

// Jobs of a state that was put back from a backup. What happened after the backup is not known:
// generations were made and given up, and trainers of them may still run. So nothing of before is
// relied on: a job that had ranks is queued again and its trainers are stopped (those of later
// generations too, since no plan names them); its directory is scanned, so that it goes on
// from the newest checkpoint that is there, also from one that was made after the backup; and its
// next generation has a number that none has had.

inline constexpr char kRestoredReason[] =
    "the controller's state was restored from a backup: what happened since then is not known";

// Once for each job, before Cluster::Restore. `used`: no generation has had a greater number.
void TakeUpAfterRestoration(Job& job, Generation used, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RESTART_H_
