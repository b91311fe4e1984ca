// Puts what has happened to a job into words: the events of its history.
#ifndef CONTROLLER_CORE_HISTORY_EVENT_TEXT_H_
#define CONTROLLER_CORE_HISTORY_EVENT_TEXT_H_

#include <vector>

#include "controller/core/history/event_history.h"
#include "controller/core/history/job_transition.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/job/reported_verdicts.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// All events set only kind, warning and text.

// Requires: the job is as it was when the transitions were found, all of them at one look.
std::vector<JobLifeEvent> EventsOf(const Job& job, const std::vector<JobTransition>& transitions);

JobLifeEvent EventOf(const ReportedVerdict& reported);
JobLifeEvent EventOf(const RemedyDecision& decision);

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_EVENT_TEXT_H_
