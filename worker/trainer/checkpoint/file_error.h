// What a failed file system call means when a checkpoint is saved.
#ifndef WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_
#define WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Message: "WHAT PATH: " and errno. Codes: ResourceExhausted: no space or quota left;
// PermissionDenied: also a read-only file system; AlreadyExists; Unavailable: anything else.
absl::Status FileError(absl::string_view what, const std::string& path);

// Maps errors of AtomicFile, which has one more code, to the codes above.
absl::Status AsFileError(const absl::Status& status);

// Whether a failed write may succeed later: a full disk, a missing permission, an error of the file
// system. Not a NaN, nor a file that exists already.
bool MayPass(const absl::Status& error);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_
