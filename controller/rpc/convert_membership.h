// The wire's messages about the membership of jobs, to and from core's types; as convert.h.
#ifndef CONTROLLER_RPC_CONVERT_MEMBERSHIP_H_
#define CONTROLLER_RPC_CONVERT_MEMBERSHIP_H_

#include "controller/core/job.h"
#include "controller/core/membership.h"
#include "controller/store/record.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

// Core to wire. `rank`: in the present generation, -1 for a spare.
v1::Rank ToProto(int rank, const RankState& trainer);
v1::Membership ToProto(const Membership& membership);
v1::MembershipChange ToProto(const MembershipChange& change);

// Wire to core.
MembershipStatus FromProto(const v1::MembershipStatus& status);
RecoveryPolicy RecoveryOf(const v1::JobSpec& spec);
JobTimeouts TimeoutsOf(const v1::JobSpec& spec);

// What is stored beside the message that clients see, and both back.
void EncodeMembership(const Job& job, v1::JobRecord* record);
// Requires: the rest of the job is decoded.
void DecodeMembership(const v1::JobRecord& record, Job* job);

}  // namespace paceline

#endif  // CONTROLLER_RPC_CONVERT_MEMBERSHIP_H_
