// Converts between the wire's messages and core's types; the only code that knows both.
//
// Input from the wire is not trusted: meaningless values become the neutral value or an
// InvalidArgument.
#ifndef CONTROLLER_WIRE_CONVERT_H_
#define CONTROLLER_WIRE_CONVERT_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/event_history.h"
#include "proto/job.pb.h"
#include "proto/job_history.pb.h"
#include "proto/node.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Core to wire:
google::protobuf::Timestamp ToProto(absl::Time time);
// When the rank was last heard from, if its node does not answer; nothing: the node answers.
std::optional<google::protobuf::Timestamp> LastHeard(const RankState& rank);
v1::TrainerId ToProto(const TrainerId& id);
v1::JobState ToProto(JobState state);
// `wall_now` is used to date the progress. The revision is left unset.
v1::Job ToProto(const Job& job, absl::Time wall_now);
// Converts the node's trainers and tasks; the revision is left unset.
v1::NodePlan ToProto(const std::vector<PlannedTrainer>& plan,
                     const std::vector<CheckpointTask>& tasks);
v1::JobHistoryEvent ToProto(const JobLifeEvent& event);

// Wire to core:
absl::Time FromProto(const google::protobuf::Timestamp& time);
TrainerId FromProto(const v1::TrainerId& id);
TrainerState FromProto(v1::TrainerState state);
JobState FromProto(v1::JobState state);
Progress FromProto(const v1::Progress& progress);
Evaluation FromProto(const v1::EvaluationResult& evaluation);
PlanStatus FromProto(const v1::PlanStatus& plan);
Figures FromProto(const v1::RankFigures& figures);
ProfileResult FromProto(const v1::ProfileResult& profile);
JobProfile FromProto(const v1::JobProfile& profile);
TrainerExit FromProto(const v1::TrainerExit& exit);
std::vector<TrainerReport> FromProto(const v1::NodeReport& report);
// Events of an unknown kind become state events.
JobLifeEvent FromProto(const v1::JobHistoryEvent& event);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_H_
