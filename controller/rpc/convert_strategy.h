// Strategies and what is done about stragglers, to and from core's types; as convert.h.
#ifndef CONTROLLER_RPC_CONVERT_STRATEGY_H_
#define CONTROLLER_RPC_CONVERT_STRATEGY_H_

#include <optional>
#include <string>

#include "common/core/ladder.h"
#include "controller/core/job.h"
#include "controller/core/straggler_mode.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/job_spec.pb.h"

namespace paceline {

using LadderMessages = google::protobuf::RepeatedPtrField<v1::LadderLevel>;

JobStrategy FromProto(const v1::Strategy& strategy);
SlipstreamChoice FromProto(const v1::Slipstream& slipstream);
v1::Slipstream ToProto(const SlipstreamChoice& choice);
StragglerMode FromProto(const v1::StragglerPolicy& policy);

Ladder FromProto(const LadderMessages& ladder);
LadderMessages ToProto(const Ladder& ladder);

// The serialized strategy, with another ladder. Requires: it has one that can be changed, and the
// ladder of a local_sgd job is one level over all ranks.
std::string WithLadder(const std::string& strategy, const Ladder& ladder);

// The serialized strategy of a job that asked for `auto`, when it trains by this; nothing: ddp.
std::string StrategyOf(const std::string& asked, const std::optional<SlipstreamChoice>& choice);

}  // namespace paceline

#endif  // CONTROLLER_RPC_CONVERT_STRATEGY_H_
