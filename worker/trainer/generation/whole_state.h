// Sends the whole state of the training from one rank to another: parameters, buffers, the
// optimizer's state and step counts, the state of the random numbers, what is attached, and what
// the members of a level's group have in common: references, and momenta of outer steps. With a
// streamed average under way, what the sender has given to it. The rest of TrainingState is the
// caller's.
//
// Thread-compatible. A failed transfer is a CollectiveError.
#ifndef WORKER_TRAINER_GENERATION_WHOLE_STATE_H_
#define WORKER_TRAINER_GENERATION_WHOLE_STATE_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// What the update of a step changes: the parameters, and the optimizer's state unless that is
// attached.
std::vector<at::Tensor> StepTensors(const Rendezvous& rendezvous);

// Number of values of all parameters.
int64_t CountParameters(const Rendezvous& rendezvous);

// `group` exchanges tensors of `device`. `to`, `from`: members of it.
void SendWholeState(Group& group, at::Device device, const Rendezvous& rendezvous,
                    const TrainingState& state, int to);

// `source`: the sender's row. Requires: `state` has no position any more, as a failure leaves a
// part of another state; the caller sets it.
void ReceiveWholeState(Group& group, at::Device device, const Rendezvous& rendezvous,
                       const RendezvousRow& source, TrainingState& state, int from);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_WHOLE_STATE_H_
