// Fills the vacant seats of a sharded model's replicas in the generation that follows a loss
// (next_generation.h).
//
//   vacant seats ──▶ which replicas can be whole? ──▶ not all: wait, or give the others up
//                        │                                    │
//                        ▼                                    ▼
//              who has a state that is missing in a group gets a seat there; then, seat by seat:
//              1. members of given-up replicas, to seats whose state they have
//              2. spares, then new trainers, in the replica's domain (replica_domain.h)
//              3. other spares, then other new trainers
//              4. other members of given-up replicas
//
// If replicas differ (state_groups.h), the first of these is done for all ranks of a replica: in
// each group one replica gets all who have the state of one.
//
// If the job requires domains, all of this stays within them: what is in another domain counts for
// nothing, and a replica of which nobody is left gets a domain that has room for the whole of it.
#ifndef CONTROLLER_CORE_RECOVERY_REPLICA_SEATS_H_
#define CONTROLLER_CORE_RECOVERY_REPLICA_SEATS_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/seat_holders.h"

namespace paceline {

// Appends to `outcomes` who gets which seat. Afterwards each replica has all its seats filled, or
// none. Returns what the job waits for instead, if anything; then `holders` is of no use any more.
std::optional<std::string> FillReplicas(const Job& job, const FindSlots& find_slots, Moment now,
                                        SeatHolders& holders, std::vector<std::string>& outcomes);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_REPLICA_SEATS_H_
