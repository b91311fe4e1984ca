// Jobs of a state that was put back from a backup.
//
// What happened after the backup is not known: generations were made and given up, and trainers of
// them may still run. So nothing of before is relied on: a job that had ranks is queued again and
// its trainers are stopped (those of later generations too, since no plan names them); its
// directory is looked through, so that it goes on from the newest checkpoint that is there, also
// from one that was made after the backup; and its next generation has a number that none has had.
//
// Pure.
#ifndef CONTROLLER_CORE_RESTORED_H_
#define CONTROLLER_CORE_RESTORED_H_

#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/job.h"

namespace paceline {

inline constexpr char kRestoredReason[] =
    "the controller's state was restored from a backup: what happened since then is not known";

// Once for each job, before Cluster::Restore. `used`: no generation has had a greater number.
void TakeUpAfterRestoration(Job& job, Generation used, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RESTORED_H_
