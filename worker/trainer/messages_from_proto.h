// Reads what the daemon tells a trainer after its configuration: memberships, plans, and requests
// for profiles and checkpoints.
#ifndef WORKER_TRAINER_MESSAGES_FROM_PROTO_H_
#define WORKER_TRAINER_MESSAGES_FROM_PROTO_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"
#include "worker/trainer/config.h"

namespace paceline {

// Takes zeros in the membership from the configuration. InvalidArgument when it is impossible.
absl::StatusOr<Assignment> AssignmentFromProto(const v1::Membership& proto,
                                               const Member& configured);

// Does not check the plan: CheckPlan (comm/training_plan.h) does.
TrainingPlan PlanFromProto(const v1::TrainingPlan& proto);

ProfileRequest ProfileRequestFromProto(const v1::ProfileRequest& proto);

CheckpointPlan CheckpointPlanFromProto(const v1::CheckpointPlan& proto);

// What the configuration has in common with these messages. CheckReplicas: InvalidArgument if the
// ranks are no whole replicas.
WireFormat WireFormatFromProto(v1::WireFormat format);
absl::Status CheckReplicas(const Member& member);

}  // namespace paceline

#endif  // WORKER_TRAINER_MESSAGES_FROM_PROTO_H_
