#include "common/atomic_file/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status WriteAndSync(int fd, const std::string& path,
                          absl::Span<const absl::string_view> pieces) {
  for (absl::string_view piece : pieces) {
    if (!WriteAll(fd, piece)) return Failed("cannot write", path);
  }
  if (fsync(fd) != 0) return Failed("cannot sync", path);
  return absl::OkStatus();
}

// Makes the rename itself durable.
absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string directory = ".";
  if (slash != std::string::npos) directory = slash == 0 ? "/" : path.substr(0, slash);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed("cannot open", directory);
  absl::Status status;
  // Some network file systems cannot sync a directory, and need not.
  if (fsync(fd) != 0 && errno != EINVAL) status = Failed("cannot sync", directory);
  close(fd);
  return status;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  const std::string temporary = absl::StrCat(path, ".tmp", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("cannot create", temporary);
  absl::Status status = WriteAndSync(fd, temporary, pieces);
  close(fd);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Failed("cannot rename to", path);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectoryOf(path);
}

}  // namespace paceline
