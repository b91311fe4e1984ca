// Records how long a trainer's log was at which time, so that "the last ten minutes" can be found
// even when its lines have no times.
//
// The marks are a small file with "MILLISECONDS OFFSET" on each line, by the node's clock. It is
// not beside the segments (log_files.h), where the trainer, perhaps another user, writes.
// Stateless: each call reads the files.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_LOGS_LOG_MARKS_H_
#define WORKER_DAEMON_LOGS_LOG_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace paceline {

class LogMarks {
 public:
  // Beyond this, every second mark is removed, so that older marks are further apart.
  static constexpr size_t kMostMarks = 1024;

  // `dir` holds the segments; `file` holds the marks.
  LogMarks(std::string dir, std::string file) : dir_(std::move(dir)), file_(std::move(file)) {}

  // Adds a mark if the log has grown since the last one. A mark that cannot be written is skipped:
  // results are then less exact.
  void Add(absl::Time now) const;

  // Returns the offset of the first line written after `time`, or of one up to a mark's distance
  // earlier; 0 when there is no mark before `time`.
  int64_t OffsetAfter(absl::Time time) const;

 private:
  const std::string dir_;
  const std::string file_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_LOGS_LOG_MARKS_H_
