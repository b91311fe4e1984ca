// Who holds which seat when a generation follows another that lost members, or could not go on.
//
// Members that are left keep their seats; of a planned generation that did not come about, the
// earlier holder does where the newcomer has no state yet. But when nobody is left of a group who
// certainly has the state, nobody knows whether the newcomers got it and trained on: they keep
// their seats, and earlier holders take the seats of the group that are free, so that whoever is
// further gives it to the others. A seat that is free then goes to a spare, one that is ready
// first, else to a new trainer at a free place, else it stays empty, if the job may shrink so far;
// else the others wait (recovery.h).
#ifndef CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_
#define CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_

#include <string>

#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery.h"

namespace paceline {

// Begins the generation, or says in the job's reason what it waits for. `cause`: for people.
JobChange Replace(Job& job, const std::string& cause, const FindPlaces& find_places, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_
