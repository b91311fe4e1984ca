// Finds the checkpoint that a command line means.
//
// Text that begins with "/" or "." is the path of its directory, or of the manifest in it; other
// text is a name for the controller: JOB, JOB/STEP or JOB/STEP.gGENERATION.
#ifndef CLI_VERBS_CHECKPOINT_CHECKPOINT_LOCATION_H_
#define CLI_VERBS_CHECKPOINT_CHECKPOINT_LOCATION_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/program.h"
#include "proto/checkpoint.pb.h"

namespace paceline {

// Describes the option in --help.
inline constexpr char kCheckpointHelp[] =
    "Name JOB, JOB/STEP or JOB/STEP.gGENERATION, or path of a directory (begins with / or .)";

bool IsPath(absl::string_view text);

// Makes a path absolute, without "." and "..".
std::string AbsolutePath(const std::string& path);

// Converts to the form of requests: names unchanged, paths absolute and those of the directory.
std::string ForController(const std::string& text);

// Checks a checkpoint that nodes are to start from, or a path to take weights from. Returns kCliOk,
// or prints an error and returns its exit code if what is there on this machine cannot be used.
// Paths that cannot be read here are left to the nodes, with a note. Names are not looked up.
int CheckStart(Program& program, const std::string& text);
int CheckWeights(Program& program, const std::string& path);

// Refuses a path, for delete, pin and unpin, which take only names.
int RefusePath(Program& program, const std::string& text);

struct CheckpointLocation {
  std::optional<v1::Checkpoint> checkpoint;  // Unset: a path was given.
  std::string directory;                     // Absolute.
};

// Asks the controller where a named checkpoint is; a path must be a directory here. Returns kCliOk,
// or prints the error and returns its exit code.
int FindCheckpoint(Program& program, const std::string& text, CheckpointLocation* location);

// Returns `status`, which says why the files could not be used. If the directory named by the
// controller is not visible here, returns FailedPrecondition with that and what to do.
absl::Status Explained(const absl::Status& status, const CheckpointLocation& location);

}  // namespace paceline

#endif  // CLI_VERBS_CHECKPOINT_CHECKPOINT_LOCATION_H_
