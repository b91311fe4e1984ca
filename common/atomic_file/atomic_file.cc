#include "common/atomic_file/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

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

}  // namespace

absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string directory = ".";
  if (slash != std::string::npos) directory = slash == 0 ? "/" : path.substr(0, slash);
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed("cannot open", directory);
  absl::Status status;
  // Some network file systems neither support nor need syncing a directory.
  if (fsync(fd) != 0 && errno != EINVAL) status = Failed("cannot sync", directory);
  close(fd);
  return status;
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  std::string temporary = absl::StrCat(path, ".tmp", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("cannot create", temporary);
  return AtomicFile(path, std::move(temporary), fd);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  if (!WriteAll(fd_, bytes)) return Failed("cannot write", temporary_);
  return absl::OkStatus();
}

absl::Status AtomicFile::Overwrite(uint64_t offset, absl::string_view bytes) {
  const off_t end = lseek(fd_, 0, SEEK_CUR);
  if (lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0 || !WriteAll(fd_, bytes) ||
      lseek(fd_, end, SEEK_SET) < 0) {
    return Failed("cannot write", temporary_);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return Failed("cannot sync", temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Failed("cannot rename to", path_);
  }
  close(std::exchange(fd_, -1));
  return SyncDirectoryOf(path_);
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  for (absl::string_view piece : pieces) {
    if (absl::Status status = file->Append(piece); !status.ok()) return status;
  }
  return file->Commit();
}

}  // namespace paceline
