// The log of one trainer: segments, read as one sequence of bytes.
//
// A segment is named "<offset>.log", where the offset of its first byte in the whole log has 20
// digits; it ends where the next begins. The trainer writes and rotates the segments. The daemon
// deletes the oldest, and cuts the beginning of one that the trainer does not rotate. The directory
// belongs to the trainer, who may put anything into it (common/foreign_dir.h). Stateless: each call
// reads the directory.
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
  // How far back from the end TailOffset counts lines: a trainer's output must not keep the daemon
  // busy. Reading 64 MiB takes some tens of milliseconds.
  static constexpr int64_t kMaxLookBack = int64_t{64} << 20;
  // Larger than any disk; segments that begin later are ignored.
  static constexpr int64_t kMaxOffset = int64_t{1} << 60;
  // Most entries that a log's directory may have to be read: to list a million blocks the daemon.
  static constexpr size_t kMaxEntries = 16384;

  // `dir` holds the segments. A link in its place is not followed. Its parent directory must be one
  // in which the trainer cannot replace it.
  explicit LogFiles(std::string dir) : dir_(std::move(dir)) {}

  struct Chunk {
    int64_t offset = 0;  // Of the first byte: the requested one, or the oldest one kept.
    std::string data;    // At most kMaxChunk; empty at the end of the log.
  };
  // Reads the bytes from `offset` on. NotFound when there is no log. This and the functions below
  // also return the errors of common/foreign_dir.h.
  absl::StatusOr<Chunk> Read(int64_t offset) const;

  // Returns the offset at which the last `lines` lines begin, at most kMaxLookBack before the end.
  // An incomplete last line counts. NotFound when there is no log.
  absl::StatusOr<int64_t> TailOffset(int lines) const;

  // Returns the offset of the first line that begins at or after `offset`; `offset` itself when
  // there is none nearby.
  int64_t LineFrom(int64_t offset) const;

  struct End {
    int64_t offset = 0;  // Just past the last byte.
    absl::Time written;  // When the last byte was written, by the file system's clock.
  };
  // NotFound when there is no log.
  absl::StatusOr<End> FindEnd() const;

  // Returns the last lines, at most `lines` and `bytes`, as UTF-8 with "?" for each invalid byte.
  // Of a line that was overwritten ("\r"), returns the final text. Empty when there is no log.
  std::string Tail(int lines, size_t bytes) const;

  // Deletes the oldest segments until `kept` (at least 1) remain. When these have more than twice
  // `kept` * `segment_bytes` bytes, also cuts the oldest of those bytes; offsets stay valid.
  void DeleteOldest(size_t kept, int64_t segment_bytes) const;

 private:
  const std::string dir_;
};

// `text` with each byte that is not part of a valid UTF-8 sequence replaced by "?".
std::string ToUtf8(std::string text);

}  // namespace paceline

#endif  // WORKER_DAEMON_LOGS_LOG_FILES_H_
