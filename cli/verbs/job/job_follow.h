// Follows one job until it ends: a progress bar on a terminal, a line every few seconds
// elsewhere, then a summary. The job does not depend on being followed.
#ifndef CLI_VERBS_JOB_JOB_FOLLOW_H_
#define CLI_VERBS_JOB_JOB_FOLLOW_H_

#include <string>

#include "absl/time/time.h"
#include "cli/program.h"

namespace paceline {

struct FollowOptions {
  bool progress = true;  // Else only the end is shown.
  bool silent = false;   // Not even that.
  bool events = false;   // As JSON: a line for each change, the end among them.
  absl::Time deadline = absl::InfiniteFuture();
};

// `job_id`: full. Returns the exit code: that of the job's end, or of what kept from seeing it.
int FollowJob(Program& program, const std::string& job_id, const FollowOptions& options);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_JOB_FOLLOW_H_
