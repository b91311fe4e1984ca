// Files in the directory of somebody who is not trusted, a trainer's user say, who may put anything
// in the place of anything at any time: a link, a pipe, a device, a file with a second name
// elsewhere, one that becomes shorter, or never ends.
//
// Every step goes from a descriptor and follows no link. Nothing blocks for want of somebody at the
// other end, nothing is mapped, and what is read, listed and removed in one call is bounded.
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

// Errors name the path: NotFound; FailedPrecondition when there is a link, what is no regular file
// or directory, or what is another user's; ResourceExhausted beyond a limit.

// A regular file with one name. Thread-compatible.
class ForeignFile {
 public:
  ForeignFile(ForeignFile&& other) noexcept;
  ForeignFile& operator=(ForeignFile&& other) noexcept;
  ~ForeignFile();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // As it was when it was opened.
  const struct stat& info() const { return info_; }

  // Up to `size` bytes from `offset` on; what there is.
  absl::StatusOr<std::string> Read(int64_t offset, size_t size) const;

  // All of it: ResourceExhausted when it is larger than `limit`.
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
  // `path` leads where nobody else can change it, and is followed; empty: the working directory.
  // What is in it may be the stranger's.
  static absl::StatusOr<ForeignDir> Open(const std::string& path);

  ForeignDir(ForeignDir&& other) noexcept;
  ForeignDir& operator=(ForeignDir&& other) noexcept;
  ~ForeignDir();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  // `name` in it: FailedPrecondition also when it is another user's than this directory.
  absl::StatusOr<ForeignDir> OpenDir(const std::string& name) const;
  // The same for a file, to read it, with `writable` also to write it.
  absl::StatusOr<ForeignFile> OpenFile(const std::string& name, bool writable = false) const;

  // Writes `text`, at most PIPE_BUF bytes, to the named pipe `name` for somebody who waits there to
  // read. Unavailable: nobody does, or nothing was read for long. Requires: SIGPIPE is ignored.
  absl::Status WriteToPipe(const std::string& name, absl::string_view text) const;

  // What is in it, in no order; of more than `limit` entries any so many.
  absl::StatusOr<std::vector<std::string>> Names(size_t limit) const;

  // Removes a name that is no directory's. One that is missing is removed already.
  absl::Status Remove(const std::string& name) const;

  // Removes `name`, whatever it is and however deep, at most `limit` entries of it; true when it is
  // gone. Whoever may change `name` can make it last, and nothing else.
  absl::StatusOr<bool> RemoveSome(const std::string& name, size_t limit) const;

 private:
  ForeignDir(int fd, std::string path, uid_t owner)
      : fd_(fd), path_(std::move(path)), owner_(owner) {}

  int fd_;
  std::string path_;
  uid_t owner_;
};

// Directory and name. The directory is empty where there is no slash.
std::pair<std::string, std::string> SplitPath(const std::string& path);

// Removes `path`, of which only the last part may be the stranger's, and all that is in it. One
// that is missing is removed already.
absl::Status RemoveForeignTree(const std::string& path);

// The contents of a file, for who reads it as the user that named it: links are followed. NotFound;
// FailedPrecondition when it is no regular file, ResourceExhausted, with its size, when it is
// larger than `limit`.
absl::StatusOr<std::string> ReadBoundedFile(const std::string& path, size_t limit);

}  // namespace paceline

#endif  // COMMON_FOREIGN_DIR_H_
