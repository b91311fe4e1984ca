#include "worker/daemon/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paceline {

char StateLetter(absl::string_view stat) {
  // The program's name, in parentheses, may itself hold any.
  const size_t name_end = stat.rfind(')');
  return name_end == absl::string_view::npos || name_end + 2 >= stat.size() ? '\0'
                                                                            : stat[name_end + 2];
}

pid_t ParentIn(absl::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == absl::string_view::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  int parent = 0;
  return fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) ? parent : 0;
}

pid_t ParentOf(pid_t pid) {
  const int fd = ::open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char stat[512];
  const ssize_t size = ::read(fd, stat, sizeof(stat));
  ::close(fd);
  return size <= 0 ? 0 : ParentIn(absl::string_view(stat, static_cast<size_t>(size)));
}

ProcessState::ProcessState(pid_t pid)
    : fd_(::open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC)) {}

ProcessState::ProcessState(ProcessState&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ProcessState& ProcessState::operator=(ProcessState&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ProcessState::~ProcessState() {
  if (fd_ >= 0) ::close(fd_);
}

bool ProcessState::Suspended() const {
  char stat[512];
  const ssize_t size = fd_ < 0 ? -1 : ::pread(fd_, stat, sizeof(stat), 0);
  if (size <= 0) return false;
  const char state = StateLetter(absl::string_view(stat, static_cast<size_t>(size)));
  return state == 'T' || state == 't';
}

}  // namespace paceline
