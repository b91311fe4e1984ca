// Converts collectives of watched commands to and from core's types.
#ifndef CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_
#define CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_

#include "controller/core/job/job.h"
#include "proto/job.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Limits a node's report, which a process of the job may have made up.
void LimitCollectives(v1::RankCollectives* reported);

RankCollectives FromProto(const v1::RankCollectives& reported);

// Leaves the field unset if nobody was asked, or has answered yet.
void SetCollectives(const JobCollectives& collectives, v1::Job& job);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_COLLECTIVES_H_
