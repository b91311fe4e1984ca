// Jobs that take their code along: `submit --ship`, `run --ship`.
#ifndef CLI_VERBS_JOB_SHIP_H_
#define CLI_VERBS_JOB_SHIP_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/program.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

inline constexpr char kShipHelp[] =
    "Send the files of the working directory with the job, to nodes that do not have it: those "
    "that "
    "git tracks, as they are on disk, or, with a .pacelineignore or without git, all that it does "
    "not exclude. At most 32 MiB";

// Packs the spec's working directory, replaces it by the code in the spec, and says what travels.
// Returns the bytes for SubmitShipped.
absl::StatusOr<std::string> Ship(Program& program, v1::JobSpec* spec);

// Submits the job, and uploads its code if the controller lacks it. `code`: from Ship, or empty.
grpc::Status SubmitShipped(Program& program, const v1::SubmitJobRequest& request,
                           const std::string& code, v1::Job* job);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_SHIP_H_
