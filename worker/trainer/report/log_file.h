// The trainer's standard output and error, written as segments of bounded size in a directory.
//
// A segment is named <base>.log: the offset of its first byte in the whole log, in 20 digits, so
// that a reader can continue at any offset. To begin a new one, the descriptors are first pointed
// at a file with a temporary name; then the old segment's size is final and gives the new one's
// name. Writers through stdio wait meanwhile, so that no line reaches the old segment after it was
// measured.
//
// The daemon deletes old segments. Thread-compatible.
#ifndef WORKER_TRAINER_REPORT_LOG_FILE_H_
#define WORKER_TRAINER_REPORT_LOG_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

class LogFile {
 public:
  // Points `descriptors` (each open or not) at the first segment in `directory`, which is created
  // if needed. A segment beyond `segment_bytes` is full.
  static absl::StatusOr<LogFile> Attach(std::string directory, int64_t segment_bytes,
                                        std::vector<int> descriptors = {1, 2});

  // Begins a new segment if the current one is full. Otherwise costs one system call.
  absl::Status RotateIfFull();

 private:
  LogFile(std::string directory, int64_t segment_bytes, std::vector<int> descriptors)
      : directory_(std::move(directory)),
        segment_bytes_(segment_bytes),
        descriptors_(std::move(descriptors)) {}

  std::string SegmentPath(int64_t base) const;
  absl::Status Redirect(int fd);

  std::string directory_;
  int64_t segment_bytes_;
  std::vector<int> descriptors_;
  int64_t base_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_REPORT_LOG_FILE_H_
