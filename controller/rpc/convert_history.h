// Between the wire's messages about jobs' histories and core's types: see convert.h.
#ifndef CONTROLLER_RPC_CONVERT_HISTORY_H_
#define CONTROLLER_RPC_CONVERT_HISTORY_H_

#include "controller/core/history/event_history.h"
#include "proto/job_history.pb.h"

namespace paceline {

// Core to wire.
v1::JobHistoryEvent ToProto(const JobLifeEvent& event);

// Wire to core. An unknown kind is that of a state.
JobLifeEvent FromProto(const v1::JobHistoryEvent& event);

}  // namespace paceline

#endif  // CONTROLLER_RPC_CONVERT_HISTORY_H_
