#include "worker/shim/trainer_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

// Attempts to take the lock: readers hold it, shared, for a moment.
constexpr int kTakeAttempts = 50;
constexpr timespec kTakePause{0, 1'000'000};

std::string LockPath(const std::string& trainer_dir) {
  return absl::StrCat(trainer_dir, "/", trainer_dir::kLock);
}

// Returns the two numbers in the file; zeros while they are not there.
TrainerProcesses ReadProcesses(int fd) {
  char buffer[64];
  const ssize_t size = ::pread(fd, buffer, sizeof(buffer), 0);
  TrainerProcesses processes;
  processes.alive = true;
  if (size <= 0) return processes;
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(buffer, static_cast<size_t>(size)), '\n');
  int shim = 0;
  int trainer = 0;
  if (lines.size() == 3 && absl::SimpleAtoi(lines[0], &shim) &&
      absl::SimpleAtoi(lines[1], &trainer)) {
    processes.shim = shim;
    processes.trainer = trainer;
  }
  return processes;
}

}  // namespace

absl::StatusOr<TrainerProcesses> ReadTrainerLock(const std::string& trainer_dir) {
  const std::string path = LockPath(trainer_dir);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return TrainerProcesses();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  TrainerProcesses processes;
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      const absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
      ::close(fd);
      return status;
    }
    processes = ReadProcesses(fd);
  }
  ::close(fd);
  return processes;
}

absl::StatusOr<TrainerLock> TrainerLock::Take(const std::string& trainer_dir) {
  const std::string path = LockPath(trainer_dir);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  TrainerLock lock(fd);
  for (int attempt = 0; attempt < kTakeAttempts; ++attempt) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK) break;
    ::nanosleep(&kTakePause, nullptr);
  }
  if (errno != EWOULDBLOCK && errno != EINTR) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
  }
  return absl::FailedPreconditionError(absl::StrCat("another process holds ", path));
}

TrainerLock::TrainerLock(TrainerLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

TrainerLock& TrainerLock::operator=(TrainerLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

TrainerLock::~TrainerLock() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status TrainerLock::WriteProcesses(pid_t shim, pid_t trainer) const {
  const std::string text = absl::StrCat(shim, "\n", trainer, "\n");
  if (::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return absl::ErrnoToStatus(errno, "cannot write the trainer's lock");
  }
  return absl::OkStatus();
}

}  // namespace paceline
