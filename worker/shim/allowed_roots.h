// Decides which paths a job may name: those below one of the node's roots once links are resolved.
//
// The check sees the paths as the calling user does, at this moment: whoever can change directories
// below the roots can still change them later. The protection against that is the user that
// trainers run as.
#ifndef WORKER_SHIM_ALLOWED_ROOTS_H_
#define WORKER_SHIM_ALLOWED_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// A path in a job, and the job file's key for it, such as "data.train".
struct NamedPath {
  std::string field;
  std::string path;
};

// Whether `path` is absolute and has no ".." part.
bool IsPlainPath(absl::string_view path);

// PermissionDenied, with field, path and roots, when one of `paths` is outside all `roots` or
// cannot be resolved. A path that does not exist yet is judged by its nearest existing parent.
// Without roots, all plain paths are allowed. May block as long as the file systems do.
absl::Status CheckRoots(const std::vector<std::string>& roots, const std::vector<NamedPath>& paths);

}  // namespace paceline

#endif  // WORKER_SHIM_ALLOWED_ROOTS_H_
