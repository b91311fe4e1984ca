#include "common/state_lock/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

std::string LockPath(const std::string& directory) { return directory + "/lock"; }

absl::Status SystemError(const std::string& what, int error) {
  const std::string line = absl::StrCat(what, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(line)
                                            : absl::PermissionDeniedError(line);
}

pid_t ReadPid(int fd) {
  char text[32] = {};
  if (pread(fd, text, sizeof text - 1, 0) <= 0) return 0;
  pid_t pid = 0;
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &pid) ? pid : 0;
}

}  // namespace

StateLock::StateLock(StateLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

StateLock& StateLock::operator=(StateLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

StateLock::~StateLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<StateLock> StateLock::Take(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return SystemError("cannot make state directory " + directory, error.value());
  const std::string path = LockPath(directory);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("cannot write state directory: " + path, errno);
  StateLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", directory, " is in use by process ", ReadPid(fd)));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return SystemError("cannot write " + path, errno);
  }
  return lock;
}

pid_t StateLockHolder(const std::string& directory) {
  const int fd = open(LockPath(directory).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  // Shared, so that two processes that look do not take each other for the holder.
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const pid_t pid = held ? ReadPid(fd) : 0;
  close(fd);
  return pid;
}

}  // namespace paceline
