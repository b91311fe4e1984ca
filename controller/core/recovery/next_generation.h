// Decides who holds which seat in a generation that follows one that lost members or got stuck.
//
// Members that are left keep their seats. If a planned generation did not come about, the earlier
// holder keeps its seat from a newcomer that has no state yet. But if nobody who certainly has the
// state is left in a group, the newcomers may have got it and trained on: they keep their seats,
// and earlier holders take the free seats of the group, so that whoever is furthest gives its state
// to the others. Any other free seat goes to a spare, first to one that is ready, else to a new
// trainer at a free slot. Else it stays empty if the job may shrink so far, or the others wait
// (recovery.h).
//
// If the model is sharded, only whole replicas stay empty: those that miss most. Their members take
// the free seats of the others whose state they have, before spares and new trainers do. Of these,
// the ones in the replica's domain (replica_domain.h) come first: a free slot there comes before a
// spare elsewhere, as a replica that is stretched is slow for good. A member that changes its
// position gets another part of the model, so it comes last. Whoever is left over stands by for any
// position. While nobody has trained since, a member that stands by, or that has changed its
// position, still has the state of its former group: if nobody else has that, it gets a seat there.
#ifndef CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_
#define CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_

#include <string>

#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery.h"

namespace paceline {

// Begins the generation, or puts what it waits for into the job's reason. `cause`: for people.
JobChange Replace(Job& job, const std::string& cause, const FindSlots& find_slots, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_NEXT_GENERATION_H_
