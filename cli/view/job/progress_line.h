// One line that shows how far a job is.
#ifndef CLI_VIEW_JOB_PROGRESS_LINE_H_
#define CLI_VIEW_JOB_PROGRESS_LINE_H_

#include <string>

#include "cli/text/reported_once.h"
#include "proto/job.pb.h"

namespace paceline {

// Seconds until the last step at the present pace, including the rest of an evaluation under way,
// but no later ones; negative if there is no pace.
double SecondsToGo(const v1::Job& job);

// "[=====>    ]" of `length` columns, filled to a share from 0 to 1.
std::string BarText(double share, int length);

// For a terminal: name, bar, and as many of step, loss, tokens/s or samples/s, ETA, accuracy and
// newest checkpoint as fit in `width` columns. Before the training it shows what the job waits for.
std::string ProgressBar(const v1::Job& job, int width);

// For a log: "digits RUNNING step 60/150 loss 0.4242 812 samples/s eta 12 s accuracy 95.3 %".
std::string ProgressText(const v1::Job& job, ReportedOnce* reported = nullptr);

}  // namespace paceline

#endif  // CLI_VIEW_JOB_PROGRESS_LINE_H_
