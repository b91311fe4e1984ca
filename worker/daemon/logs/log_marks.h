// How long the log of a trainer was at which time, so that "the last ten minutes" of it can be
// found: its lines need not have times.
//
// A small file, "MILLISECONDS OFFSET" in each line, by the node's clock; not beside the segments
// (log_files.h), where the trainer writes, which may be another user. Stateless: each call looks at
// the files.
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
  // Beyond that every second mark is left out, so that older ones are further apart.
  static constexpr size_t kMostMarks = 1024;

  // `dir`: where the segments lie; `file`: of the marks.
  LogMarks(std::string dir, std::string file) : dir_(std::move(dir)), file_(std::move(file)) {}

  // A mark, if the log has grown since the last one. One that cannot be kept is left out: what is
  // found is then less exact.
  void Add(absl::Time now) const;

  // Where the first line begins that was written after `time`, or at most the distance of two marks
  // earlier; 0 without a mark before it.
  int64_t OffsetAfter(absl::Time time) const;

 private:
  const std::string dir_;
  const std::string file_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_LOGS_LOG_MARKS_H_
