// The directories for a job's weights: <checkpoint.directory>/<job id>, and the folder of
// export_final. They are created and tested before the first step, so that no training is lost to
// an unwritable directory.
#ifndef WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// Creates `directory` and tests it by writing and removing a file with a name of this rank's own.
// `named`, the value of the job file's `key`, is `directory` or a folder above it. The parent of
// `named` must exist: otherwise a file system is not mounted or a name is misspelt, and nobody
// would look for the output there. Errors name `key`: InvalidArgument when it cannot be written;
// Internal when that may be temporary (a full disk).
absl::Status PrepareOutputDirectory(absl::string_view key, const std::string& named,
                                    const std::string& directory, int rank);

// A lock that rank 0 of a job holds in the job's directory while it lives, so that no other process
// writes there: not the same job of another cluster, and no abandoned process that lives on. It is
// flock on the file `lock`, which names the holder; the kernel releases it with the process.
class OutputLock {
 public:
  // FailedPrecondition, naming the holder in its own words, when another one keeps the lock for
  // longer than `patience`; InvalidArgument when the directory cannot be written. `key` as above.
  static absl::StatusOr<OutputLock> Take(absl::string_view key, const std::string& directory,
                                         const std::string& holder, absl::Duration patience);

  OutputLock(OutputLock&& other) noexcept;
  OutputLock& operator=(OutputLock&& other) noexcept;
  ~OutputLock();

 private:
  explicit OutputLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
