// Planned changes of a sharded model's membership (planned_change.h): which of the trainers that
// stand by take seats of its replicas, and where more are started for that.
//
// Ranks that leave nodes are replaced near the ranks of their replica that stay; an empty replica,
// or one that leaves as a whole, gets trainers that are near each other. If the job requires
// domains, they are in one (replica_domain.h).
//
// A replica that is stretched, because ranks were lost and there was no slot for others in its
// domain, is mended: once there are trainers and free slots in the domain for all its ranks that
// are elsewhere, these come back. Not while ranks leave nodes or seats are empty, and not within
// kMendingPause of another change.
#ifndef CONTROLLER_CORE_RECOVERY_PLANNED_REPLICAS_H_
#define CONTROLLER_CORE_RECOVERY_PLANNED_REPLICAS_H_

#include <cstddef>
#include <vector>

#include "controller/core/recovery/recovery.h"

namespace paceline {

// A spare that takes a seat: an empty one, or that of a rank that moves.
struct Taker {
  int seat = 0;
  size_t spare = 0;  // Index in Job.spares.
};

// Looks, if it is time, which stretched replicas can be mended (JobRecovery::mending). Returns
// whether these are others than before.
bool ChooseMending(Job& job, const FindSlots& find_slots, Moment now);

// The seats that can be taken at once, by some of the spares `ready` (indices): those of all ranks
// on a node, or none of them; all of a replica's, or none of them.
std::vector<Taker> ChooseTakers(const Job& job, const std::vector<size_t>& ready);

// Trainers that such seats lack besides the spares that are there.
struct MissingTrainers {
  std::vector<Slot> slots;  // Where to start them.
  bool found_all = true;    // Whether there were slots for all of them but extra ranks (elastic.h).
  int extra = 0;            // Extra ranks for which there were none.
  int idle = 0;             // Usable spares that are left for other purposes.
};
MissingTrainers FindMissing(const Job& job, const FindSlots& find_slots);

// Puts the spares first that such seats are for.
void SortByUse(Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_PLANNED_REPLICAS_H_
