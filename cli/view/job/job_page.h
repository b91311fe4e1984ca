// Everything about one job, for people.
#ifndef CLI_VIEW_JOB_JOB_PAGE_H_
#define CLI_VIEW_JOB_JOB_PAGE_H_

#include <string>

#include "absl/time/time.h"
#include "cli/text/reported_once.h"
#include "cli/view/page.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// State and reason, labels, description, times, strategy, checkpoints, progress, evaluation, ranks,
// figures, profile, failure, spec. A long reason is shown in full only once, unless `style` is
// wide.
std::string JobPage(const v1::Job& job, absl::Time now, const PageStyle& style);

// The spec as a job file, with a heading; without defaults unless `style` is wide.
std::string JobFileText(const v1::JobSpec& spec, const PageStyle& style);

// Which rank failed, how, at which point of the training, and its last log lines. Empty if no
// failure is recorded.
std::string FailureText(const v1::Job& job, const PageStyle& style,
                        ReportedOnce* reported = nullptr);

// Whether weights are kept anywhere when a job with this spec has ended.
bool KeepsWeights(const v1::JobSpec& spec);

// State, steps, time, pace and accuracy of a job that has ended, and where its weights are; in some
// lines.
std::string SummaryText(const v1::Job& job, absl::Time now, const PageStyle& style,
                        ReportedOnce* reported = nullptr);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_JOB_PAGE_H_
