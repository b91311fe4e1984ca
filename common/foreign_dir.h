// Safe access to files in a directory of an untrusted user, for example the trainers'. That user
// may at any time replace anything by a link, a pipe, a device, a file with a second name
// elsewhere, or a file that shrinks or never ends.
//
// Each step starts from a descriptor and follows no links. Nothing waits for a peer, nothing is
// mapped, and each call reads, lists or removes a bounded amount.
#ifndef COMMON_FOREIGN_DIR_H_
#define COMMON_FOREIGN_DIR_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Errors name the path: NotFound; FailedPrecondition for a link, for what is no regular file or
// directory, or for another user's file; ResourceExhausted beyond a limit.

// A regular file with one name. Thread-compatible.
class ForeignFile {
 public:
  ForeignFile(ForeignFile&& other) noexcept;
  ForeignFile& operator=(ForeignFile&& other) noexcept;
  ~ForeignFile();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // Its state when it was opened.
  const struct stat& info() const { return info_; }

  // Reads up to `size` bytes from `offset` on, or as many as there are.
  absl::StatusOr<std::string> Read(int64_t offset, size_t size) const;

  // Reads the whole file; ResourceExhausted if it is larger than `limit`.
  absl::StatusOr<std::string> ReadAll(size_t limit) const;

 private:
  friend class ForeignDir;
  ForeignFile(int fd, std::string path, const struct stat& info)
      : fd_(fd), path_(std::move(path)), info_(info) {}

  int fd_;
  std::string path_;
  struct stat info_;
};

// Thread-compatible.
class ForeignDir {
 public:
  // Opens `path`, following links, so nobody else may be able to change where it leads; empty: the
  // working directory. Its contents may belong to the untrusted user.
  static absl::StatusOr<ForeignDir> Open(const std::string& path);

  ForeignDir(ForeignDir&& other) noexcept;
  ForeignDir& operator=(ForeignDir&& other) noexcept;
  ~ForeignDir();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  // Opens the directory `name`; FailedPrecondition also when its owner differs from this one's.
  absl::StatusOr<ForeignDir> OpenDir(const std::string& name) const;
  // Opens a file likewise, for reading; with `writable`, also for writing.
  absl::StatusOr<ForeignFile> OpenFile(const std::string& name, bool writable = false) const;

  // Writes `text`, at most PIPE_BUF bytes, to the named pipe `name`. Unavailable: nobody waits
  // there to read, or the reader has stopped. Requires: SIGPIPE is ignored.
  absl::Status WriteToPipe(const std::string& name, absl::string_view text) const;

  // Lists entries in no order; if there are more than `limit`, any `limit` of them.
  absl::StatusOr<std::vector<std::string>> Names(size_t limit) const;

  // Removes an entry that is no directory. OK if it is missing.
  absl::Status Remove(const std::string& name) const;

  // Removes up to `limit` entries of `name`, whatever and however deep it is; true when it is gone.
  // Others who change `name` meanwhile can only delay this.
  absl::StatusOr<bool> RemoveSome(const std::string& name, size_t limit) const;

 private:
  ForeignDir(int fd, std::string path, uid_t owner)
      : fd_(fd), path_(std::move(path)), owner_(owner) {}

  int fd_;
  std::string path_;
  uid_t owner_;
};

// Splits a path into directory and name. The directory is empty if there is no slash.
std::pair<std::string, std::string> SplitPath(const std::string& path);

// Removes `path` and everything in it. Only its last part may belong to an untrusted user. OK if it
// is missing.
absl::Status RemoveForeignTree(const std::string& path);

// Reads a file, following links, for a caller that acts as the user who named it. NotFound;
// FailedPrecondition when it is no regular file; ResourceExhausted, with its size, when it is
// larger than `limit`.
absl::StatusOr<std::string> ReadBoundedFile(const std::string& path, size_t limit);

}  // namespace paceline

#endif  // COMMON_FOREIGN_DIR_H_
