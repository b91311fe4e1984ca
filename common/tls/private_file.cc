#include "common/tls/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 1 << 20;

// Who may read a file; only with kEverybody may others write it.
enum class Audience { kEverybody, kGroup, kOwner };

absl::Status Failed(const std::string& path, int error) {
  const std::string what = absl::StrCat(path, " cannot be used: ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(path, " is missing"));
  return error == EACCES || error == EPERM ? absl::PermissionDeniedError(what)
                                           : absl::UnavailableError(what);
}

absl::StatusOr<std::string> Read(const std::string& path, Audience audience) {
  // Opening a pipe would wait for a writer.
  const int wait = audience == Audience::kOwner ? O_NONBLOCK : 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | wait);
  if (fd < 0) return Failed(path, errno);
  struct stat info = {};
  absl::Status status;
  std::string text;
  if (fstat(fd, &info) != 0) {
    status = Failed(path, errno);
  } else if (audience == Audience::kOwner && !S_ISREG(info.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  } else if (audience == Audience::kOwner && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    status = absl::PermissionDeniedError(
        absl::StrCat(path, " is open to others than its owner: chmod 600 ", path));
  } else if (audience == Audience::kGroup && (info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    status = absl::PermissionDeniedError(absl::StrCat(
        path,
        " is open to everybody on this machine, or its group can change it: chmod g-w,o= ", path));
  } else {
    text.resize(kMostBytes + 1);
    const ssize_t got = read(fd, text.data(), text.size());
    if (got < 0) status = Failed(path, errno);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(fd);
  if (!status.ok()) return status;
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than 1 MiB: is it the file?"));
  }
  return text;
}

absl::Status MakeFolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || !fs::create_directories(folder, error)) {
    if (!error) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make ", folder.string(), ": ", error.message()));
  }
  fs::permissions(folder, fs::perms::owner_all, error);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  return Read(path, Audience::kEverybody);
}

absl::StatusOr<std::string> ReadPrivate(const std::string& path) {
  return Read(path, Audience::kGroup);
}

absl::StatusOr<std::string> ReadOwnersOnly(const std::string& path) {
  return Read(path, Audience::kOwner);
}

absl::Status WritePrivate(const std::string& path, absl::string_view text) {
  PACELINE_RETURN_IF_ERROR(MakeFolderOf(path));
  // Nobody else ever sees the bytes: the file gets its name when it is complete.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".new");
  unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Failed(temporary, errno);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status failed = Failed(path, written ? errno : error);
    unlink(temporary.c_str());
    return failed;
  }
  return SyncDirectoryOf(path);
}

absl::Status WritePublic(const std::string& path, absl::string_view text) {
  PACELINE_RETURN_IF_ERROR(MakeFolderOf(path));
  return WriteFileAtomically(path, {text});
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed(path, errno);
}

}  // namespace paceline
