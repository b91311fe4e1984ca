// Which checkpoint is meant on a command line, and where it lies.
//
// What begins with "/" or "." is the path of its directory; anything else is a name for the
// controller: JOB, JOB/STEP or JOB/STEP.gGENERATION.
#ifndef CLI_VERBS_CHECKPOINT_PLACE_H_
#define CLI_VERBS_CHECKPOINT_PLACE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/program.h"
#include "proto/checkpoint.pb.h"

namespace paceline {

// How the option is described in --help.
inline constexpr char kCheckpointHelp[] =
    "Name JOB, JOB/STEP or JOB/STEP.gGENERATION, or path of a directory (begins with / or .)";

bool IsPath(absl::string_view text);

// From the working directory, without "." and "..".
std::string AbsolutePath(const std::string& path);

// As requests to the controller have it: names as they are, paths absolute.
std::string ForController(const std::string& text);

struct CheckpointPlace {
  std::optional<v1::Checkpoint> checkpoint;  // Unset: a path was given.
  std::string directory;                     // Absolute.
};

// Asks the controller where a name's checkpoint lies. Tells what went wrong and returns its exit
// code, else kCliOk.
int FindCheckpoint(Program& program, const std::string& text, CheckpointPlace* place);

// `status`: why the files there could not be used. The same; but if the directory that the
// controller named is not to be seen from here, FailedPrecondition says so and what to do.
absl::Status Explained(const absl::Status& status, const CheckpointPlace& place);

}  // namespace paceline

#endif  // CLI_VERBS_CHECKPOINT_PLACE_H_
