// What a failed call to a file system means to somebody who saves a checkpoint.
#ifndef WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_
#define WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// "WHAT PATH: " and errno. ResourceExhausted: no space, or no quota; PermissionDenied: also a
// read-only file system; AlreadyExists; Unavailable: any other.
absl::Status FileError(absl::string_view what, const std::string& path);

// The same codes for errors of AtomicFile, which has one more.
absl::Status AsFileError(const absl::Status& status);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_FILE_ERROR_H_
