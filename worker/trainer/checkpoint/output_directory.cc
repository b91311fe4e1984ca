#include "worker/trainer/checkpoint/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/atomic_file/atomic_file.h"
#include "common/boot_clock.h"

namespace paceline {
namespace {

constexpr absl::Duration kLockRetry = absl::Milliseconds(100);

}  // namespace

absl::Status PrepareOutputDirectory(absl::string_view key, const std::string& named,
                                    const std::string& directory, int rank) {
  std::error_code error;
  std::filesystem::path path(named);
  if (!path.has_filename()) path = path.parent_path();  // It ended with a slash.
  const std::filesystem::path above = path.parent_path();
  if (!above.empty() &&
      std::filesystem::status(above, error).type() == std::filesystem::file_type::not_found) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": ", above.string(), ", in which ", path.filename().string(),
                     " would be made, is not there: mount it, or make it, on all nodes"));
  }
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": cannot make ", directory, ": ", error.message()));
  }
  const std::string probe = absl::StrCat(directory, "/.writable.", rank);
  const absl::Status written = WriteFileAtomically(probe, {"1"});
  if (absl::IsResourceExhausted(written) || absl::IsUnavailable(written)) {
    return absl::InternalError(absl::StrCat(key, ": ", written.message()));  // It may go away.
  }
  if (!written.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", written.message()));
  }
  std::filesystem::remove(probe, error);
  return absl::OkStatus();
}

OutputLock::OutputLock(OutputLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

OutputLock& OutputLock::operator=(OutputLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OutputLock::~OutputLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<OutputLock> OutputLock::Take(absl::string_view key, const std::string& directory,
                                            const std::string& holder, absl::Duration patience) {
  const std::string path = directory + "/lock";
  const auto failed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": cannot write ", path, ": ", std::strerror(errno)));
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return failed();
  OutputLock lock(fd);
  const absl::Time deadline = BootNow() + patience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (BootNow() < deadline) {
      absl::SleepFor(kLockRetry);
      continue;
    }
    char other[256] = {};
    if (pread(fd, other, sizeof other - 1, 0) < 0) other[0] = '\0';
    return absl::FailedPreconditionError(absl::StrCat(key, ": ", directory, " is being written by ",
                                                      absl::StripAsciiWhitespace(other),
                                                      ": end that first, or use another one"));
  }
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::string text = absl::StrCat(holder, " (process ", getpid(), " on ", host, ")\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return failed();
  }
  return lock;
}

}  // namespace paceline
