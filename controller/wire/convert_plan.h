// Converts job specs, strategies, and the handling of stragglers to and from core's types; see
// convert.h.
#ifndef CONTROLLER_WIRE_CONVERT_PLAN_H_
#define CONTROLLER_WIRE_CONVERT_PLAN_H_

#include <optional>
#include <string>

#include "common/core/ladder.h"
#include "controller/core/job/job.h"
#include "controller/core/job/straggler_mode.h"
#include "controller/core/schedule/placement_policy.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

using LadderMessages = google::protobuf::RepeatedPtrField<v1::LadderLevel>;

JobStrategy FromProto(const v1::Strategy& strategy);
// What trainers have to know to train by the strategy, and for all of a spec: each feature with the
// value of kSpecVersion (common/version.h) since which they know it.
SpecNeeds NeedsOf(const v1::Strategy& strategy);
SpecNeeds NeedsOf(const v1::JobSpec& spec);
SlipstreamChoice FromProto(const v1::Slipstream& slipstream);
v1::Slipstream ToProto(const SlipstreamChoice& choice);
StragglerMode FromProto(const v1::StragglerPolicy& policy);

Ladder FromProto(const LadderMessages& ladder);
LadderMessages ToProto(const Ladder& ladder);

// Returns the serialized strategy with another ladder. Requires: the strategy's ladder can be
// changed; for local_sgd, `ladder` is one level over all ranks.
std::string WithLadder(const std::string& strategy, const Ladder& ladder);

// Returns the serialized strategy by which a job that asked for `auto` trains; no choice: ddp.
std::string StrategyOf(const std::string& asked, const std::optional<SlipstreamChoice>& choice);

// Requires: the spec has been checked.
JobRequest FromProto(const JobId& id, const v1::JobSpec& spec);
RecoveryPolicy RecoveryOf(const v1::JobSpec& spec);
JobTimeouts TimeoutsOf(const v1::JobSpec& spec);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_PLAN_H_
