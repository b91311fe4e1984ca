// Converts messages about checkpoints to and from core's types; see convert.h.
#ifndef CONTROLLER_WIRE_CONVERT_CHECKPOINT_H_
#define CONTROLLER_WIRE_CONVERT_CHECKPOINT_H_

#include <vector>

#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/job/job.h"
#include "controller/store/record.pb.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Core to wire:
v1::Checkpoint ToProto(const Job& job, const Checkpoint& checkpoint);
// Requires: the job has a checkpoint directory.
v1::JobCheckpoints SummarizeCheckpoints(const Job& job);
// Returns what the rank is told about checkpoints.
v1::CheckpointPlan CheckpointPlanFor(const Job& job, Rank rank);
v1::CheckpointTask ToProto(const CheckpointTask& task);

// Wire to core:
CheckpointPolicy FromProto(const v1::CheckpointPolicy& policy);
// Keeps the newest kMaxSavesReported.
std::vector<SaveStatus> FromProto(const google::protobuf::RepeatedPtrField<v1::SaveStatus>& saves);
// From a rank's figures: how long training stood still for the latest save.
absl::Duration BlockedTime(const v1::CheckpointFigures& figures);
std::vector<CheckpointTaskResult> TaskResults(const v1::NodeReport& report);

// What is stored beside the message that clients see: to the record, and back.
v1::SavingRecord EncodeSaving(const JobCheckpoints& checkpoints);
JobCheckpoints DecodeCheckpoints(const v1::JobRecord& record);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_CHECKPOINT_H_
