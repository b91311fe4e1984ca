// How a job's numbers went over its whole run: as a table, and as CSV.
#ifndef CLI_VIEW_JOB_CURVES_PAGE_H_
#define CLI_VIEW_JOB_CURVES_PAGE_H_

#include <string>

#include "cli/view/page.h"
#include "proto/telemetry.pb.h"

namespace paceline {

// A row per number: its newest mean, its least and greatest value, its newest step, and its course.
// Below it, since when the controller has followed the job. Empty: no curve is kept. With `utf8`
// the pictures use blocks, else ASCII.
std::string CurvesPage(const v1::JobCurves& curves, const PageStyle& style, bool utf8);

// A line per point, after a line of headings: job, name, reported (true, false), step, mean, least,
// most (all empty where no value is finite), values, not_finite.
std::string CurvesCsv(const v1::JobCurves& curves);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_CURVES_PAGE_H_
