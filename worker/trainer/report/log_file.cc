#include "worker/trainer/report/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

int OpenForAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// While it lives, no other thread writes to stdout or stderr or is in the middle of a write: our
// lines, torch's and the C++ streams' all go through these two.
class OutputPause {
 public:
  OutputPause() {
    flockfile(stdout);
    flockfile(stderr);
  }
  ~OutputPause() {
    funlockfile(stderr);
    funlockfile(stdout);
  }
  OutputPause(const OutputPause&) = delete;
  OutputPause& operator=(const OutputPause&) = delete;
};

}  // namespace

absl::StatusOr<LogFile> LogFile::Attach(std::string directory, int64_t segment_bytes,
                                        std::vector<int> descriptors) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return Failed("make", directory);
  LogFile log(std::move(directory), segment_bytes, std::move(descriptors));
  const std::string path = log.SegmentPath(0);
  const int fd = OpenForAppend(path);
  if (fd < 0) return Failed("open", path);
  const absl::Status status = log.Redirect(fd);
  close(fd);
  PACELINE_RETURN_IF_ERROR(status);
  return log;
}

absl::Status LogFile::RotateIfFull() {
  struct stat info;
  if (fstat(descriptors_[0], &info) != 0) return Failed("stat", SegmentPath(base_));
  if (info.st_size < segment_bytes_) return absl::OkStatus();

  const std::string temporary = absl::StrCat(directory_, "/next.tmp");
  const int next = OpenForAppend(temporary);
  if (next < 0) return Failed("open", temporary);
  const int old = fcntl(descriptors_[0], F_DUPFD_CLOEXEC, 3);
  if (old < 0) {
    close(next);
    return Failed("duplicate", SegmentPath(base_));
  }
  absl::Status status;
  {
    const OutputPause pause;
    status = Redirect(next);
    if (status.ok() && fstat(old, &info) != 0) status = Failed("stat", SegmentPath(base_));
  }
  close(next);
  close(old);
  PACELINE_RETURN_IF_ERROR(status);
  base_ += info.st_size;
  if (std::rename(temporary.c_str(), SegmentPath(base_).c_str()) != 0) {
    return Failed("rename", temporary);
  }
  return absl::OkStatus();
}

absl::Status LogFile::Redirect(int fd) {
  for (int descriptor : descriptors_) {
    if (dup2(fd, descriptor) < 0) return Failed("redirect output to", directory_);
  }
  return absl::OkStatus();
}

std::string LogFile::SegmentPath(int64_t base) const {
  return absl::StrFormat("%s/%020d.log", directory_, base);
}

}  // namespace paceline
