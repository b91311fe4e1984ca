#include "worker/daemon/state/runtime_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

absl::Status NotUsable(const std::string& path, const std::string& why) {
  return absl::PermissionDeniedError(absl::StrCat("cannot use the runtime directory ", path, ": ",
                                                  why, "; choose another --runtime-dir"));
}

// Makes the directory and its parents with their final mode, so that nobody else gets in meanwhile.
absl::Status MakeDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (!error && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat("no space left to create ", path));
  }
  return error ? NotUsable(path, error.message()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<RuntimeDir> RuntimeDir::Open(const std::string& path, std::optional<gid_t> passing) {
  PACELINE_RETURN_IF_ERROR(MakeDirectory(path));
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
    return NotUsable(path, "it is a link, or no folder");
  }
  if (fd < 0) return NotUsable(path, std::strerror(errno));
  RuntimeDir dir(fd, path);
  struct stat info;
  if (::fstat(fd, &info) != 0) return NotUsable(dir.Release(), std::strerror(errno));
  if (info.st_uid != ::geteuid()) {
    return NotUsable(dir.Release(), absl::StrCat("it belongs to user ", info.st_uid,
                                                 ", and this process is ", ::geteuid()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return NotUsable(dir.Release(), absl::StrFormat("others can write it (mode %04o); chmod 700 it",
                                                    info.st_mode & 07777));
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    dir.Release();
    return absl::FailedPreconditionError(absl::StrCat(
        "another process holds the runtime directory ", path, "; choose another --runtime-dir"));
  }
  const bool given = !passing.has_value() || ::fchown(fd, -1, *passing) == 0;
  if (!given || ::fchmod(fd, passing.has_value() ? 0710 : 0700) != 0) {
    return NotUsable(dir.Release(), std::strerror(errno));
  }
  return dir;
}

std::string RuntimeDir::Release() {
  ::close(std::exchange(fd_, -1));
  return path_;
}

RuntimeDir::RuntimeDir(RuntimeDir&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

RuntimeDir& RuntimeDir::operator=(RuntimeDir&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

RuntimeDir::~RuntimeDir() {
  if (fd_ < 0) return;
  ::rmdir(path_.c_str());
  ::close(fd_);
}

}  // namespace paceline
