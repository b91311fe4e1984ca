// Changes of a job's membership while nothing is lost (recovery.h): trainers that stand by are
// kept at hand, ranks move away from nodes, empty seats are filled, and the ranks go on by another
// strategy (plan.h).
#ifndef CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_
#define CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_

#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery.h"

namespace paceline {

// Starts the spares that are missing, as far as there are places, and releases those that are too
// many or on a node that the job leaves.
JobChange KeepSpares(Job& job, const FindPlaces& find_places, Moment now);

// Begins a planned generation if there is reason for one, it is the time, and the trainers are
// ready. Requires: the job is RUNNING.
JobChange BeginPlannedChange(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_
