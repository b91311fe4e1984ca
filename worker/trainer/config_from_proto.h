// Reads the daemon's messages: configuration, plans, and requests for profiles and checkpoints.
#ifndef WORKER_TRAINER_CONFIG_FROM_PROTO_H_
#define WORKER_TRAINER_CONFIG_FROM_PROTO_H_

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/trainer.pb.h"
#include "worker/trainer/config.h"

namespace paceline {

// Sets missing values of the job spec to their documented defaults. InvalidArgument names every
// impossible value of the spec, or another problem.
absl::StatusOr<TrainerConfig> ConfigFromProto(const v1::TrainerConfig& proto);

// Takes zeros in the membership from the configuration. InvalidArgument when it is impossible.
absl::StatusOr<Assignment> AssignmentFromProto(const v1::Membership& proto,
                                               const Member& configured);

// Does not check the plan: CheckPlan (comm/training_plan.h) does.
TrainingPlan PlanFromProto(const v1::TrainingPlan& proto);

ProfileRequest ProfileRequestFromProto(const v1::ProfileRequest& proto);

CheckpointPlan CheckpointPlanFromProto(const v1::CheckpointPlan& proto);

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_FROM_PROTO_H_
