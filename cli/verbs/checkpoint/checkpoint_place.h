// Which checkpoint is meant on a command line, and where it lies.
//
// What begins with "/" or "." is the path of its directory, or of the manifest in it; anything else
// is a name for the controller: JOB, JOB/STEP or JOB/STEP.gGENERATION.
#ifndef CLI_VERBS_CHECKPOINT_CHECKPOINT_PLACE_H_
#define CLI_VERBS_CHECKPOINT_CHECKPOINT_PLACE_H_

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

// As requests to the controller have it: names as they are, paths absolute and of the directory.
std::string ForController(const std::string& text);

// The nodes shall start from this checkpoint, or take weights from this path. Tells it and returns
// an exit code when what lies there on this machine cannot be used, else kCliOk; a path that cannot
// be read here is left to the nodes, with a note. Names are not looked up.
int CheckStart(Program& program, const std::string& text);
int CheckWeights(Program& program, const std::string& path);

// For delete, pin and unpin, which take names only.
int RefusePath(Program& program, const std::string& text);

struct CheckpointPlace {
  std::optional<v1::Checkpoint> checkpoint;  // Unset: a path was given.
  std::string directory;                     // Absolute.
};

// Asks the controller where a name's checkpoint lies; a path must be a directory here. Tells what
// went wrong and returns its exit code, else kCliOk.
int FindCheckpoint(Program& program, const std::string& text, CheckpointPlace* place);

// `status`: why the files there could not be used. The same; but if the directory that the
// controller named is not to be seen from here, FailedPrecondition says so and what to do.
absl::Status Explained(const absl::Status& status, const CheckpointPlace& place);

}  // namespace paceline

#endif  // CLI_VERBS_CHECKPOINT_CHECKPOINT_PLACE_H_
