#include "worker/daemon/trainers/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paceline {

char StateLetter(absl::string_view stat) {
  // The program's name, in parentheses, may itself contain parentheses.
  const size_t name_end = stat.rfind(')');
  return name_end == absl::string_view::npos || name_end + 2 >= stat.size() ? '\0'
                                                                            : stat[name_end + 2];
}

namespace {

// Limit on a rank's processes; no rank needs so many. They must not keep the daemon busy.
constexpr size_t kMaxProcesses = 4096;
constexpr int kMaxGenerations = 32;

// Numbers of the fields that follow the program's name.
constexpr size_t kParent = 1;
constexpr size_t kUserTicks = 11;
constexpr size_t kFirstOfChildren = 13;
constexpr size_t kEndOfTicks = 15;

std::vector<absl::string_view> FieldsIn(absl::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == absl::string_view::npos) return {};
  return absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
}

std::string StatOf(pid_t pid) {
  const int fd = ::open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char stat[512];
  const ssize_t size = ::read(fd, stat, sizeof(stat));
  ::close(fd);
  return size <= 0 ? "" : std::string(stat, static_cast<size_t>(size));
}

// Sum of the two fields from `first` on.
int64_t TicksOf(pid_t pid, size_t first) {
  const std::string stat = StatOf(pid);
  const std::vector<absl::string_view> fields = FieldsIn(stat);
  int64_t sum = 0;
  for (size_t i = first; i < std::min(kEndOfTicks, fields.size()); ++i) {
    int64_t ticks = 0;
    if (absl::SimpleAtoi(fields[i], &ticks)) sum += ticks;
  }
  return sum;
}

// Appends the children that the threads of `pid` have started.
void AppendChildren(pid_t pid, std::vector<pid_t>& processes) {
  std::error_code error;
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream children(task->path() / "children");
    for (pid_t child; processes.size() < kMaxProcesses && children >> child;) {
      processes.push_back(child);
    }
  }
}

}  // namespace

pid_t ParentIn(absl::string_view stat) {
  const std::vector<absl::string_view> fields = FieldsIn(stat);
  int parent = 0;
  return fields.size() > kParent && absl::SimpleAtoi(fields[kParent], &parent) ? parent : 0;
}

pid_t ParentOf(pid_t pid) { return ParentIn(StatOf(pid)); }

bool DescendsFrom(pid_t pid, pid_t ancestor) {
  for (int i = 0; i < kMaxGenerations && pid > 1; ++i) {
    pid = ParentOf(pid);
    if (pid == ancestor) return true;
  }
  return false;
}

absl::Duration ProcessorTimeBelow(pid_t root) {
  int64_t ticks = TicksOf(root, kFirstOfChildren);
  std::vector<pid_t> processes = {root};
  for (size_t i = 0; i < processes.size(); ++i) {
    if (i > 0) ticks += TicksOf(processes[i], kUserTicks);
    AppendChildren(processes[i], processes);
  }
  return absl::Seconds(static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
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
