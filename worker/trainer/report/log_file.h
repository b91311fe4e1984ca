// The trainer's standard output and error, as segments of bounded size in a directory.
//
// A segment is called <base, 20 digits>.log, where base is the offset of its first byte in
// the whole log, so that a reader can go on at any offset. To begin a new one the file
// descriptors are first pointed at a file with a temporary name; the old segment's final
// size is then known, and with it the new one's name. Writers through stdio wait meanwhile,
// so that no line lands in the old segment after it was measured.
//
// Old segments are deleted by the daemon, not here. Thread-compatible.
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
  // Points `descriptors` (each open or not) at the first segment in `directory`, which is
  // made if need be. A segment past `segment_bytes` is full.
  static absl::StatusOr<LogFile> Attach(std::string directory, int64_t segment_bytes,
                                        std::vector<int> descriptors = {1, 2});

  // Begins a new segment if the present one is full. Costs one system call otherwise.
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
