#include "worker/shim/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// `fd`: a descriptor, which is closed, or minus an errno.
absl::StatusOr<std::optional<std::string>> ReadAll(int fd, const std::string& path, size_t limit) {
  if (fd == -ENOENT) return std::nullopt;
  if (fd < 0) return absl::ErrnoToStatus(-fd, absl::StrCat("cannot open ", path));
  std::string contents;
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(fd, buffer, sizeof(buffer))) > 0 && contents.size() <= limit) {
    contents.append(buffer, static_cast<size_t>(size));
  }
  const int error = errno;
  ::close(fd);
  if (size < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
  if (contents.size() > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(path, " has more than ", limit, " bytes"));
  }
  return contents;
}

}  // namespace

absl::Status WriteSmallFile(const std::string& path, absl::string_view contents) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary));
  const ssize_t written = ::write(fd, contents.data(), contents.size());
  // A short write is what a full disk gives first.
  const int error = written < 0 ? errno : ENOSPC;
  ::close(fd);
  if (written == static_cast<ssize_t>(contents.size())) {
    if (::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename to ", path));
  }
  ::unlink(temporary.c_str());
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return ReadAll(fd < 0 ? -errno : fd, path, SIZE_MAX);
}

int OpenForeignFile(const std::string& path) {
  // Not blocking: to open a pipe without a writer would last.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -errno;
  struct stat info;
  // A second name may be that of a file that its maker cannot read.
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink <= 1) return fd;
  ::close(fd);
  return -ELOOP;
}

absl::StatusOr<std::optional<std::string>> ReadForeignFile(const std::string& path, size_t limit) {
  const int fd = OpenForeignFile(path);
  if (fd == -ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a link, or no regular file"));
  }
  return ReadAll(fd, path, limit);
}

}  // namespace paceline
