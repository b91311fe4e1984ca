// Hands the state of a rank that leaves as planned over to the trainer that takes its rank, where
// nobody else has that state: the two meet in a group of their own.
//
//   who leaves     ── step (agreed) ── leaves ── HandStateOver, waits to be ended
//                                                    │
//   who comes      ── connects the generation ── TakeStateOver ── rendezvous of the generation
//
// Afterwards the newcomer is where the other one was, with the residuals of what it sends
// quantised, so that the rendezvous finds it to be a member that has kept its state. The other one
// keeps its own, in case the generation does not come about.
//
// Thread-compatible. A failed transfer is a CollectiveError.
#ifndef WORKER_TRAINER_GENERATION_HAND_OVER_H_
#define WORKER_TRAINER_GENERATION_HAND_OVER_H_

#include <memory>

#include "absl/status/status.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Connects the two: a group of host tensors in which who leaves is the first. Null: this trainer
// has no part in a hand-over. `config`: of the assignment's generation. Blocks until the other one
// is there, at most for the startup timeout. `platform` must outlive the group.
std::shared_ptr<Group> ConnectHandOver(Platform& platform, const TrainerConfig& config,
                                       const Assignment& assignment);

// `rendezvous`: of the generation that was left. Requires: no step is under way.
void HandStateOver(Group& pair, const Rendezvous& rendezvous, const TrainingState& state);

// `rendezvous`: of the generation that begins. InvalidArgument: the models differ; `state` is then
// unchanged. After a CollectiveError it has no position.
absl::Status TakeStateOver(Group& pair, const Rendezvous& rendezvous, TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_HAND_OVER_H_
