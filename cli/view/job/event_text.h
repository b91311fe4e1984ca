// What happened to a job, for people.
#ifndef CLI_VIEW_JOB_EVENT_TEXT_H_
#define CLI_VIEW_JOB_EVENT_TEXT_H_

#include <string>

#include "cli/view/page.h"
#include "proto/job_history.pb.h"

namespace paceline {

// The headings of what EventLines gives, with a newline; nothing where the style has none.
std::string EventHeading(const PageStyle& style);

// One event: "2026-11-22 05:24:08  straggler   271  rank 4 on w4 is slow: ...", each line with a
// newline. A text that is longer than the line goes on below itself. Times are local.
std::string EventLines(const v1::JobHistoryEvent& event, const PageStyle& style);

// "straggler"; a number that this program does not know is itself.
std::string WordOf(v1::JobEventKind kind);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_EVENT_TEXT_H_
