// Converts what running jobs measure to the wire's messages; see convert.h. The controller's page
// shows the same.
//
// `measured` and `stragglers` may be null: nothing is known.
#ifndef CONTROLLER_WIRE_CONVERT_TELEMETRY_H_
#define CONTROLLER_WIRE_CONVERT_TELEMETRY_H_

#include <cstddef>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/steps/run_curves.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/job_stragglers.h"
#include "proto/telemetry.pb.h"

namespace paceline {

// Most verdicts in a JobTelemetry, and most points of its recent_step_s.
inline constexpr int kSlowReported = 8;
inline constexpr int kRecentPoints = 60;
// Most numbers of a session's script in a JobSeries.
inline constexpr int kNumbersReported = 32;
// Ranks whose reports are read for a job's curves: the first so many.
inline constexpr size_t kRanksRead = 256;
// Rows of a JobSteps: by default, and at most.
inline constexpr int kDefaultStepRows = 256;
inline constexpr int kMaxStepRows = 1024;

// Whether the job has begun to train and has not ended.
bool HasTelemetry(const Job& job);

// Number of slow ranks, nodes and groups: slow_count of a JobTelemetry.
int CountSlow(const JobStragglers* stragglers);

v1::JobTelemetry DescribeTelemetry(const Job& job, const MeasuredJob* measured,
                                   const JobStragglers* stragglers);
// `slowest`: as in GetJobRanksRequest.
v1::JobRanks DescribeRanks(const Job& job, const MeasuredJob* measured,
                           const JobStragglers* stragglers, int slowest);
// Requires: rows is positive.
v1::JobSteps DescribeSteps(const Job& job, const MeasuredJob* measured, int steps, int rows);
// Only points whose period ended after `since` (wall clock); what scripts reported is there always.
v1::JobSeries DescribeSeries(const Job& job, const MeasuredJob* measured, absl::Time since);
// `curves` may be null, too.
v1::JobCurves DescribeCurves(const Job& job, const JobCurves* curves);

// What the first kRanksRead ranks report now, for the job's curves: see ReadNumbers.
std::vector<CurveValue> NumbersOf(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_TELEMETRY_H_
