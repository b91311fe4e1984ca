// Collectives of watched commands: protos to core's types, and back.
#ifndef CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_
#define CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_

#include "controller/core/job/job.h"
#include "proto/job.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Limits what a node tells: a job's process made it up, perhaps.
void LimitCollectives(v1::RankCollectives* told);

RankCollectives FromProto(const v1::RankCollectives& told);

// Unset: nobody was asked, or has answered yet.
void SetCollectives(const JobCollectives& collectives, v1::Job& job);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_
