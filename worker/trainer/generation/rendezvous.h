// Lets a generation's members meet: finds out who has which state, and who needs it.
//
// The ranks report their positions, come to the same decision (core/rendezvous.h), undo unfinished
// steps, and send each other what is missing. A rank with an older state keeps it until it has all
// of the new one. A rank without state gets:
//
//   parameters, buffers, the optimizer's state and step counts, the state of the random numbers,
//   what is attached;
//   the position in the data, the steps done, the latest evaluation and save;
//   what its groups have in common (comm/level_states.h): references of quantised averages, points
//   and momenta of outer steps; with a streamed average under way, what its source has given to it,
//   in the place of what the lost rank had. Residuals of quantised averages and of quantised
//   gradients begin from zero: nobody else has them. Those of a rank that hands its state over go
//   with it (hand_over.h), and copies have them (copies/state_image.h).
#ifndef WORKER_TRAINER_GENERATION_RENDEZVOUS_H_
#define WORKER_TRAINER_GENERATION_RENDEZVOUS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

struct Rendezvous {
  const TrainerConfig& config;
  const TrainingPlan& plan;
  Groups& groups;
  const ModelTensors& model;
  const Optimizer& optimizer;
  Attachments* attachments;  // Null: none.
  const StepUndo* undo;      // Null: no rank has trained before.
  // With shards: Workload::FinishUpdate.
  std::function<absl::Status(const at::Tensor& skip)> finish_update = {};
};

// Hash of what gives positions their meaning: rank, number of ranks, and plan without version.
uint64_t LayoutOf(const Member& member, const TrainingPlan& plan);

// Collective. Afterwards `state` is that of a member of this generation. Returns true if the
// training begins; nothing was exchanged then. Throws CollectiveError; `state` is then unchanged or
// partly updated, and fit for the next rendezvous. InvalidArgument: the ranks' models differ. With
// shards, Internal: a part of the model is lost.
absl::StatusOr<bool> RunRendezvous(const Rendezvous& rendezvous, TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_RENDEZVOUS_H_
