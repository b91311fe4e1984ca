// Changes of a job's membership when nothing is lost (recovery.h): standby trainers are kept, ranks
// move off nodes, empty seats are filled, ranks are given back (elastic.h), and ranks change to
// another strategy (plan.h). Of a sharded model any ranks can move, also back to a replica that is
// stretched; its empty seats are filled by whole replicas.
#ifndef CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_
#define CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_

#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery.h"

namespace paceline {

// Starts missing spares, as far as there are slots. Releases those that are too many, or on a node
// that the job leaves.
JobChange KeepSpares(Job& job, const FindSlots& find_slots, Moment now);

// Begins a planned generation if there is reason for one, the time has come, and the trainers are
// ready. Requires: the job is RUNNING.
JobChange BeginPlannedChange(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_PLANNED_CHANGE_H_
