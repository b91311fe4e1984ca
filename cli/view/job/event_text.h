// The history of a job, for people.
#ifndef CLI_VIEW_JOB_EVENT_TEXT_H_
#define CLI_VIEW_JOB_EVENT_TEXT_H_

#include <string>

#include "cli/view/page.h"
#include "proto/job_history.pb.h"

namespace paceline {

// Headings for EventLines, with a newline; empty if the style has no headings.
std::string EventHeading(const PageStyle& style);

// One event: "2026-11-22 05:24:08  straggler   271  rank 4 on w4 is slow: ...", each line with a
// newline. Long text continues on the next line, below its beginning. Times are local.
std::string EventLines(const v1::JobHistoryEvent& event, const PageStyle& style);

// "straggler"; the number for a kind that this program does not know.
std::string WordOf(v1::JobEventKind kind);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_EVENT_TEXT_H_
