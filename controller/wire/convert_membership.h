// Converts the memberships of jobs to and from core's types, and to and from what is stored; see
// convert.h.
#ifndef CONTROLLER_WIRE_CONVERT_MEMBERSHIP_H_
#define CONTROLLER_WIRE_CONVERT_MEMBERSHIP_H_

#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"
#include "controller/store/record.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Core to wire; `rank`: in the present generation, -1 for a spare:
v1::Rank ToProto(int rank, const RankState& trainer);
v1::Membership ToProto(const Membership& membership);
v1::MembershipChange ToProto(const MembershipChange& change);
v1::JobCopies CopiesToProto(const Job& job);

// Wire to core:
MembershipStatus FromProto(const v1::MembershipStatus& status);

// What is stored beside the message that clients see: to the record, and back.
void EncodeMembership(const Job& job, v1::JobRecord* record);
// Requires: the rest of the job has been decoded.
void DecodeMembership(const v1::JobRecord& record, Job* job);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_MEMBERSHIP_H_
