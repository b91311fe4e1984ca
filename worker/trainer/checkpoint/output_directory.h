// Where a job's weights go: <checkpoint.directory>/<job id>, and the folder of export_final.
// Made and tried before the first step, so that no training is lost to a directory that cannot
// be written.
#ifndef WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_
#define WORKER_TRAINER_CHECKPOINT_OUTPUT_DIRECTORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// Makes `directory`, which is `named`, as the job file's `key` has it, or lies below it, and writes
// and removes a file there, whose name is this rank's own. The directory that holds `named` must be
// there: where it is missing, a file system is not mounted or a name misspelt, and what is written
// would be where nobody looks for it. InvalidArgument, naming `key`, when it cannot; Internal when
// that may pass (a full disk).
absl::Status PrepareOutputDirectory(absl::string_view key, const std::string& named,
                                    const std::string& directory, int rank);

// Held by a job's rank 0 in the job's directory as long as it lives, so that no other process
// writes there: not the same job of another cluster, and not one that was given up but lives on.
// It is flock on the file `lock`, which names the holder; the kernel releases it with the process.
class OutputLock {
 public:
  // FailedPrecondition, naming the holder as it named itself, when there is one for longer than
  // `patience`; InvalidArgument when the directory cannot be written. `key` as above.
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
