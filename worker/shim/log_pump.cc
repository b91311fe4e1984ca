#include "worker/shim/log_pump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

// Size of the pipe: what a program can write while the shim waits for a disk.
constexpr int kPipeBytes = 1 << 20;
constexpr size_t kReadBytes = 64 * 1024;
constexpr int kReadsAtOnce = 16;

void CloseIfOpen(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

absl::StatusOr<LogPump> LogPump::Make(const std::optional<UserIds>& owner, int64_t segment_bytes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ::fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);
  return LogPump(ends[1], ends[0], owner, segment_bytes);
}

absl::Status LogPump::OpenLog(const std::string& log_dir) {
  const auto failed = [&](absl::string_view what) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", log_dir));
  };
  if (::mkdir(log_dir.c_str(), 0700) != 0 && errno != EEXIST) return failed("make");
  dir_ = ::open(log_dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir_ < 0) return failed("open");
  if (owner_.has_value() && ::fchown(dir_, owner_->uid, owner_->gid) != 0) {
    return failed("give away");
  }
  if (!BeginSegment()) return failed("make a segment in");
  return absl::OkStatus();
}

absl::StatusOr<LogPump> LogPump::Open(const std::string& log_dir,
                                      const std::optional<UserIds>& owner, int64_t segment_bytes) {
  absl::StatusOr<LogPump> pump = Make(owner, segment_bytes);
  if (!pump.ok()) return pump;
  if (absl::Status opened = pump->OpenLog(log_dir); !opened.ok()) return opened;
  return pump;
}

LogPump::LogPump(LogPump&& other) noexcept
    : dir_(std::exchange(other.dir_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      owner_(std::move(other.owner_)),
      segment_bytes_(other.segment_bytes_),
      segment_(std::exchange(other.segment_, -1)),
      base_(other.base_),
      written_(other.written_),
      dropped_(other.dropped_),
      why_dropped_(std::move(other.why_dropped_)),
      in_line_(other.in_line_) {}

LogPump::~LogPump() {
  for (int* fd : {&dir_, &input_, &output_, &segment_}) CloseIfOpen(*fd);
}

void LogPump::CloseInput() { CloseIfOpen(input_); }

bool LogPump::BeginSegment() {
  const std::string name = absl::StrFormat("%020d.log", written_);
  const int next = ::openat(dir_, name.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
  if (next < 0) return false;
  if (owner_.has_value() && ::fchown(next, owner_->uid, owner_->gid) != 0) {
    ::close(next);
    return false;
  }
  CloseIfOpen(segment_);
  segment_ = next;
  base_ = written_;
  return true;
}

bool LogPump::Pump() {
  char data[kReadBytes];
  for (int i = 0; i < kReadsAtOnce && output_ >= 0; ++i) {
    const ssize_t size = ::read(output_, data, sizeof(data));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    if (size == 0) {
      CloseIfOpen(output_);
      return false;
    }
    Write(absl::string_view(data, static_cast<size_t>(size)));
  }
  return output_ >= 0;
}

void LogPump::Write(absl::string_view data) {
  // If this fails it is retried at the next output; until then the full segment takes it.
  if (written_ - base_ >= segment_bytes_) BeginSegment();
  if (dropped_ > 0) {
    const std::string reported =
        absl::StrCat(in_line_ ? "\n" : "", "[paceline] ", dropped_,
                     " bytes of output are missing here: ", why_dropped_, "\n");
    if (WriteAll(reported)) dropped_ = 0;
  }
  const int64_t before = written_;
  if (dropped_ == 0 && WriteAll(data)) return;
  dropped_ += static_cast<int64_t>(data.size()) - (written_ - before);
}

bool LogPump::WriteAll(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t size = ::write(segment_, data.data(), data.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      why_dropped_ = std::strerror(size < 0 ? errno : ENOSPC);
      return false;
    }
    in_line_ = data[static_cast<size_t>(size) - 1] != '\n';
    written_ += size;
    data.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

}  // namespace paceline
