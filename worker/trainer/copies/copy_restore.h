// Lets all members of a generation go back to the complete copies: each takes its own, or gets the
// copy of its seat from a rank that has it, and replaces its state. They then meet as ranks that
// have all trained in the generation of the copies, and are at its step (generation/rendezvous.h).
// If groups have changed since, as when fewer ranks go on, they begin as after any change of them.
#ifndef WORKER_TRAINER_COPIES_COPY_RESTORE_H_
#define WORKER_TRAINER_COPIES_COPY_RESTORE_H_

#include "absl/status/status.h"
#include "worker/trainer/copies/state_copies.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Collective, before RunRendezvous. Throws CollectiveError; `state` is then what it was, or none.
// Internal: nobody has the copy of some seat, or it does not fit. ResourceExhausted: the host has
// no memory for it. Requires: StateCopies::Enter with these orders.
absl::Status RestoreCopies(const Rendezvous& rendezvous, const CopyOrders& orders,
                           StateCopies& copies, TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_COPIES_COPY_RESTORE_H_
