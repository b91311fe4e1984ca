// Writes a file whole or not at all.
//
// The bytes go to a temporary name in the same directory, are synced, and the file is then
// renamed over `path`, so that a reader sees the old contents or the new ones, also after a
// loss of power. On an error the temporary file is removed and `path` is untouched.
//
// Thread-safe for different paths.
#ifndef COMMON_ATOMIC_FILE_ATOMIC_FILE_H_
#define COMMON_ATOMIC_FILE_ATOMIC_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paceline {

// A file that is written piece by piece. Errors name the file: NotFound when its directory is
// missing, PermissionDenied, ResourceExhausted when the disk is full, else Unavailable.
//
// Thread-compatible.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // Without Commit, nothing is written.

  absl::Status Append(absl::string_view bytes);

  // Replaces bytes that were appended.
  absl::Status Overwrite(uint64_t offset, absl::string_view bytes);

  // Puts the complete file in place. Call nothing after it.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);

  std::string path_;
  std::string temporary_;
  int fd_;  // Negative: nothing is left to do.
};

// Writes `pieces` one after the other. Errors as for AtomicFile.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);

// Makes it durable that `path` was created, renamed or removed. Errors as for AtomicFile.
absl::Status SyncDirectoryOf(const std::string& path);

}  // namespace paceline

#endif  // COMMON_ATOMIC_FILE_ATOMIC_FILE_H_
