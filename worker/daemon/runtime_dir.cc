#include "worker/daemon/runtime_dir.h"

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

namespace paceline {
namespace {

absl::Status NotUsable(const std::string& path, const std::string& why) {
  return absl::PermissionDeniedError(absl::StrCat("cannot use the runtime directory ", path, ": ",
                                                  why, "; choose another --runtime-dir"));
}

}  // namespace

absl::StatusOr<RuntimeDir> RuntimeDir::Open(const std::string& path) {
  std::error_code error;
  const bool created = std::filesystem::create_directories(path, error);
  if (error == std::errc::no_space_on_device) {
    return absl::ResourceExhaustedError(absl::StrCat("no space left to create ", path));
  }
  if (error) return NotUsable(path, error.message());
  if (created) ::chmod(path.c_str(), 0700);
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return NotUsable(path, std::strerror(errno));
  struct stat info;
  const bool ours = ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid();
  const bool locked = ours && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (!locked) ::close(fd);
  if (!ours) return NotUsable(path, "it belongs to another user");
  if (!locked) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process holds the runtime directory ", path, "; choose another --runtime-dir"));
  }
  return RuntimeDir(fd, path);
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
