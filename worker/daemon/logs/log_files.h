// The log of one trainer: segments, read as one sequence of bytes.
//
// A segment's name is the offset of its first byte in the whole log, 20 digits, and ".log"; it
// ends where the next begins. The trainer writes and rotates them, the daemon deletes the
// oldest, and the beginning of one that the trainer does not rotate. The directory is the
// trainer's, who may put anything into it (common/foreign_dir.h). Stateless: each call looks at the
// directory.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_LOGS_LOG_FILES_H_
#define WORKER_DAEMON_LOGS_LOG_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

class LogFiles {
 public:
  static constexpr size_t kMaxChunk = 64 * 1024;
  // How far back from the end lines are counted: what a trainer has written must not keep the
  // daemon busy. 64 MiB are read in some tens of milliseconds.
  static constexpr int64_t kMaxLookBack = int64_t{64} << 20;
  // Larger than any disk; segments that begin later are nobody's.
  static constexpr int64_t kMaxOffset = int64_t{1} << 60;
  // Of the directory. A log with more is not read: to list a million holds up the daemon.
  static constexpr size_t kMaxEntries = 16384;

  // `dir`: where the segments lie. Not followed when it is a link; the directory that it lies in is
  // the trainer's, and cannot be replaced by it.
  explicit LogFiles(std::string dir) : dir_(std::move(dir)) {}

  struct Chunk {
    int64_t offset = 0;  // Of the first byte: the one asked for, or the oldest one kept.
    std::string data;    // At most kMaxChunk; empty at the end of the log.
  };
  // The bytes from `offset` on. NotFound when there is no log. Errors, here and below, also as of
  // common/foreign_dir.h.
  absl::StatusOr<Chunk> Read(int64_t offset) const;

  // The offset at which the last `lines` lines begin, within kMaxLookBack from the end; a line
  // without its end counts as one. NotFound when there is no log.
  absl::StatusOr<int64_t> TailOffset(int lines) const;

  // The offset at which the first line begins that begins at `offset` or later; `offset` itself
  // when there is none nearby.
  int64_t LineFrom(int64_t offset) const;

  struct End {
    int64_t offset = 0;  // Behind the last byte.
    absl::Time written;  // When that was written, by the clock of the file system.
  };
  // NotFound when there is no log.
  absl::StatusOr<End> FindEnd() const;

  // The last lines, at most `lines` and `bytes`, as valid UTF-8: what is not is shown as "?". Of a
  // line that was written over ("\r"), what was written last.
  // Empty when there is no log.
  std::string Tail(int lines, size_t bytes) const;

  // Deletes the oldest segments beyond the latest `kept` (at least 1), and of each of these what is
  // before its last `segment_bytes`, when it has more than twice as many: offsets stay as they are.
  void DeleteOldest(size_t kept, int64_t segment_bytes) const;

 private:
  const std::string dir_;
};

// `text` with each byte that is not part of a valid UTF-8 sequence replaced by "?".
std::string ToUtf8(std::string text);

}  // namespace paceline

#endif  // WORKER_DAEMON_LOGS_LOG_FILES_H_
