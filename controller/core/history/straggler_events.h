// Turns verdicts and decisions about a job's stragglers into events of the job's history.
#ifndef CONTROLLER_CORE_HISTORY_STRAGGLER_EVENTS_H_
#define CONTROLLER_CORE_HISTORY_STRAGGLER_EVENTS_H_

#include "controller/core/history/event_history.h"
#include "controller/core/stragglers/job/reported_verdicts.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// Set only kind, warning and text.
JobLifeEvent EventOf(const ReportedVerdict& reported);
JobLifeEvent EventOf(const RemedyDecision& decision);

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_STRAGGLER_EVENTS_H_
