// The rendezvous of a generation's members with Slipstream: finds out who has which state, and
// sends it to those who need it (slipstream/rendezvous.h).
//
// The most advanced member sends to the others, one by one, what they lack:
//
//   the canonical model; in modes of gradients the optimizer's state and step counts, or what is
//   attached as shared, which contains them
//   to newcomers also: that state in any mode, counters of the model, the state of the random
//   numbers, what is attached as own, the position in the data
#ifndef WORKER_TRAINER_GENERATION_SLIPSTREAM_RENDEZVOUS_H_
#define WORKER_TRAINER_GENERATION_SLIPSTREAM_RENDEZVOUS_H_

#include "absl/status/statusor.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/slipstream/slipstream.h"

namespace paceline {

// Collective. Afterwards `memory` and `state` are those of a member of this generation. True if the
// training begins; nothing was exchanged then. Throws CollectiveError; both stay fit for the next
// rendezvous. InvalidArgument: the ranks' models differ, or they begin at different steps.
absl::StatusOr<bool> RunSlipstreamRendezvous(const Rendezvous& rendezvous, SlipstreamMemory& memory,
                                             TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SLIPSTREAM_RENDEZVOUS_H_
