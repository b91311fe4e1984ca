// Reads what the daemon sends: the configuration, plans, requests for profiles and checkpoints.
#ifndef WORKER_TRAINER_CONFIG_FROM_PROTO_H_
#define WORKER_TRAINER_CONFIG_FROM_PROTO_H_

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/trainer.pb.h"
#include "worker/trainer/config.h"

namespace paceline {

// Missing values of the job spec take their documented defaults. InvalidArgument names every
// impossible value of the spec, or what else is.
absl::StatusOr<TrainerConfig> ConfigFromProto(const v1::TrainerConfig& proto);

// Zeros of the membership are the configuration's own. InvalidArgument when it is impossible.
absl::StatusOr<Assignment> AssignmentFromProto(const v1::Membership& proto,
                                               const Member& configured);

// Whether it can be is for CheckPlan (comm/training_plan.h) to say.
TrainingPlan PlanFromProto(const v1::TrainingPlan& proto);

ProfileRequest ProfileRequestFromProto(const v1::ProfileRequest& proto);

CheckpointPlan CheckpointPlanFromProto(const v1::CheckpointPlan& proto);

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_FROM_PROTO_H_
