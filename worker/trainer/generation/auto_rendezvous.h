// The rendezvous of a generation's members when the job changes between ddp and Slipstream.
//
// The training's state has the kind by which the newest generation's members have trained; the
// generation that begins may need the other kind. Members first meet by the kind of their state;
// then all convert it if needed:
//
//                        state: ddp               state: Slipstream
//   plan: ddp            RunRendezvous            RunSlipstreamRendezvous, x = z, RunRendezvous
//   plan: Slipstream     RunRendezvous, then      RunSlipstreamRendezvous
//                        Slipstream begins
//
// From Slipstream: updates that ranks have not sent are lost (none after a planned leave); if each
// rank had its own optimizer state, the mean over all ranks replaces it, or rank 0's where a mean
// makes no sense, and with it what is attached as shared; data continues at the position of ranks
// that keep together, in whole steps. To Slipstream: nothing to convert, since it can begin with
// any model.
//
// A rank whose state is not of the newest generation's kind counts as one without state: either it
// was left behind, or a rendezvous like this broke off when only some had finished. In the latter
// case both kinds belong to the same or to successive generations, and to the same moment, when all
// were equal: Slipstream's is taken if any rank of the newest generation has it.
#ifndef WORKER_TRAINER_GENERATION_AUTO_RENDEZVOUS_H_
#define WORKER_TRAINER_GENERATION_AUTO_RENDEZVOUS_H_

#include "absl/status/statusor.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Collective; like Meet. `rendezvous.config` has the plan's kind. Afterwards `state.slipstream` has
// a rank if and only if a Slipstream training goes on.
absl::StatusOr<bool> RunAutoRendezvous(const Rendezvous& rendezvous, TrainingState& state);

// Drops Slipstream's state: model and optimizer then hold the training.
void EndSlipstream(SlipstreamMemory& memory);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_AUTO_RENDEZVOUS_H_
