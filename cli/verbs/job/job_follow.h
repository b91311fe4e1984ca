// Follows one job until it ends: a progress bar on a terminal, otherwise a line every few seconds,
// then a summary. The job does not depend on being followed.
#ifndef CLI_VERBS_JOB_JOB_FOLLOW_H_
#define CLI_VERBS_JOB_JOB_FOLLOW_H_

#include <string>

#include "absl/time/time.h"
#include "cli/program.h"

namespace paceline {

struct FollowOptions {
  bool progress = true;  // Else only the end is shown.
  bool silent = false;   // Not even the end is shown.
  bool events = false;   // As JSON: a line for each change, including the end.
  absl::Time deadline = absl::InfiniteFuture();
};

// `job_id`: full. Returns the exit code for the job's end, or for what prevented seeing it.
int FollowJob(Program& program, const std::string& job_id, const FollowOptions& options);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_JOB_FOLLOW_H_
