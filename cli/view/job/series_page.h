// The last minutes of a job in numbers and small pictures, and what its scripts report.
#ifndef CLI_VIEW_JOB_SERIES_PAGE_H_
#define CLI_VIEW_JOB_SERIES_PAGE_H_

#include <string>

#include "cli/view/page.h"
#include "proto/telemetry.pb.h"

namespace paceline {

// A row per known figure: its newest value, its minimum and maximum over the time shown, and its
// course. Then a row per number of a session's script: over the ranks that report it, and the step
// of the newest value. Of a job that has ended, the headings say so. Empty: nothing is known. With
// `utf8` the pictures use blocks, else ASCII.
std::string SeriesPage(const v1::JobSeries& series, const PageStyle& style, bool utf8);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_SERIES_PAGE_H_
