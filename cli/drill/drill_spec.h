// The jobs of a drill: the user's own, made short, and disturbed by `chaos` of the job file.
//
// Pure.
#ifndef CLI_DRILL_DRILL_SPEC_H_
#define CLI_DRILL_DRILL_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/drill/core/judge.h"
#include "cli/drill/core/rehearsal.h"
#include "cli/drill/core/timeouts.h"
#include "proto/job_spec.pb.h"

namespace paceline {

struct DrillChanges {
  int ranks = 0;  // 0: as in the job file.
  int64_t steps = kLeastDrillSteps;
  std::string directory;  // For checkpoints and ledgers.
  bool own_cluster = true;
};

// FailedPrecondition, with what to do: no drill can be made with this job.
absl::Status CheckForDrill(const v1::JobSpec& spec, bool own_cluster);

// The undisturbed job. `spec`: sound, with its defaults.
v1::JobSpec DrillSpec(const v1::JobSpec& spec, const DrillChanges& changes);

// Adds what makes the fault happen, and what holds steps up for `pace` until there is the file
// `until_file`. Requires: a spec of DrillSpec.
void AddFault(DrillFault fault, absl::Duration pace, const std::string& until_file,
              v1::JobSpec* spec);

DrillTimeouts DrillTimeoutsOf(const v1::JobSpec& spec);

// As far as the spec says.
JudgedJob JudgedJobOf(const v1::JobSpec& spec);

}  // namespace paceline

#endif  // CLI_DRILL_DRILL_SPEC_H_
