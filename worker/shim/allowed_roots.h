// Which paths a job may name: those that lie, all links followed, below one of the node's roots.
//
// It judges paths as the calling user sees them, and at this moment: who may change directories
// below the roots may change them afterwards, too. What holds against that is the user that
// trainers run as.
#ifndef WORKER_SHIM_ALLOWED_ROOTS_H_
#define WORKER_SHIM_ALLOWED_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// A path that a job names, and where it names it: "data.train", as in the job file.
struct NamedPath {
  std::string field;
  std::string path;
};

// Whether `path` is absolute and has no part "..".
bool IsPlainPath(absl::string_view path);

// PermissionDenied, with field, path and roots, when one of `paths` lies outside of all `roots`,
// or cannot be followed. What does not exist yet lies where its nearest existing parent leads.
// Without roots all paths are allowed, as long as they are plain. May take as long as the file
// systems like.
absl::Status CheckRoots(const std::vector<std::string>& roots, const std::vector<NamedPath>& paths);

}  // namespace paceline

#endif  // WORKER_SHIM_ALLOWED_ROOTS_H_
