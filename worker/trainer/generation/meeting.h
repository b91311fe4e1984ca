// The meeting of a generation's members: who has which state of the training, and who gets it.
//
// The ranks tell each other their positions, come to the same decision (core/meeting.h), take back
// steps that did not come to their end, and send each other what is missing. A rank whose state is
// behind keeps what it had until it has all of the new one; one that had none gets:
//
//   parameters, buffers, the optimizer's state and step counts, the state of the random numbers;
//   the position in the data, the steps done, the latest evaluation and save;
//   the references of int8 averages (its residuals begin from zero).
#ifndef WORKER_TRAINER_GENERATION_MEETING_H_
#define WORKER_TRAINER_GENERATION_MEETING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/model/model.h"

namespace paceline {

struct Meeting {
  const TrainerConfig& config;
  const TrainingPlan& plan;
  Groups& groups;
  const Model& model;
  const Optimizer& optimizer;
  const StepUndo* undo;  // Null: no rank has trained before.
};

// A hash of what positions mean: the rank, the number of ranks, and the plan but for its epoch.
uint64_t LayoutOf(const Member& member, const TrainingPlan& plan);

// Collective. Afterwards `state` is that of a member of this generation. True: the training begins;
// nothing was exchanged. Throws CollectiveError; `state` then is as it was, or in part as it shall
// be, and fit for the next meeting. InvalidArgument: the models of the ranks differ.
absl::StatusOr<bool> Meet(const Meeting& meeting, TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_MEETING_H_
