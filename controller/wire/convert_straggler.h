// Converts messages about stragglers to and from core's types; see convert.h.
//
// Decisions are stored as messages. Of a ladder plan only what people are shown is kept. A
// verdict's node number is not kept either and becomes -1, since the node's name identifies it.
#ifndef CONTROLLER_WIRE_CONVERT_STRAGGLER_H_
#define CONTROLLER_WIRE_CONVERT_STRAGGLER_H_

#include "controller/core/stragglers/job/job_stragglers.h"
#include "controller/core/stragglers/job/reported_verdicts.h"
#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "proto/straggler.pb.h"

namespace paceline {

// Core to wire:
v1::StragglerVerdict ToProto(const ReportedVerdict& reported);
v1::LadderPlan ToProto(const LadderPlan& plan);
v1::StrategyPlan ToProto(const StrategyAdvice& advice);
v1::RemedyDecision ToProto(const RemedyDecision& decision);
// `stragglers`: null if nothing is known of them.
v1::JobAdvice ToProto(const JobView& view, const JobStragglers* stragglers);

// Wire to core: an unknown kind becomes one for people, an unknown state WITHDRAWN.
RemedyDecision FromProto(const v1::RemedyDecision& decision);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_STRAGGLER_H_
