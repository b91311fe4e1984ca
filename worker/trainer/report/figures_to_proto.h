// Converts a rank's reports to the messages for its daemon.
#ifndef WORKER_TRAINER_REPORT_FIGURES_TO_PROTO_H_
#define WORKER_TRAINER_REPORT_FIGURES_TO_PROTO_H_

#include "proto/plan.pb.h"
#include "proto/status.pb.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

v1::EvaluationResult ToProto(const EvaluationResult& result);
v1::PlanStatus ToProto(const PlanStatus& status);
v1::MembershipStatus ToProto(const MembershipStatus& status);
v1::ProfileResult ToProto(const ProfileResult& result);
v1::RankFigures ToProto(const RankFigures& figures);
v1::Artifact ToProto(const Artifact& artifact);
v1::SaveStatus ToProto(const SaveStatus& status);
v1::CheckpointFigures ToProto(const CheckpointFigures& figures);

}  // namespace paceline

#endif  // WORKER_TRAINER_REPORT_FIGURES_TO_PROTO_H_
