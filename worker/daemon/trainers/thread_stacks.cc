#include "worker/daemon/trainers/thread_stacks.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "worker/daemon/checks/run_program.h"
#include "worker/daemon/trainers/process_state.h"
#include "worker/shim/small_file.h"

namespace paceline {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(5);
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxThreads = 1024;
constexpr char kMaxFrames[] = "64";  // Per thread.
constexpr int64_t kMaxMemory = int64_t{2} << 30;
constexpr int kNoSuchProgram = 127;  // Exit code of prlimit.

// Text of the file; empty when it cannot be read.
std::string Contents(const std::string& path) {
  const absl::StatusOr<std::optional<std::string>> text = ReadSmallFile(path);
  return text.ok() ? text->value_or("") : "";
}

std::string KernelThread(const std::string& dir, int thread) {
  const auto line = [&](const char* name) {
    return std::string(absl::StripAsciiWhitespace(Contents(absl::StrCat(dir, "/", name))));
  };
  const char state = StateLetter(line("stat"));
  std::string text = absl::StrCat("thread ", thread, " ", line("comm"), "\n  state ",
                                  state == '\0' ? "gone" : std::string(1, state), ", waits in ",
                                  line("wchan"), ", system call ", line("syscall"), "\n");
  for (const absl::string_view frame :
       absl::StrSplit(Contents(dir + "/stack"), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "  ", frame, "\n");
  }
  return text;
}

// Uses setpriv(1) and prlimit(1), which set user and limits before the tool starts; this process
// could only do so in a thread.
std::vector<std::string> StackCommand(pid_t pid, const std::optional<UserIds>& user) {
  std::vector<std::string> command;
  if (user.has_value()) {
    command = {"setpriv",         absl::StrCat("--reuid=", user->uid),
               "--clear-groups",  absl::StrCat("--regid=", user->gid),
               "--inh-caps=-all", "--ambient-caps=-all",
               "--no-new-privs"};
  }
  command.insert(command.end(), {"prlimit", absl::StrCat("--data=", kMaxMemory), "--core=0",
                                 "eu-stack", "-m", "-n", kMaxFrames, "-p", absl::StrCat(pid)});
  return command;
}

std::string UserStacks(pid_t pid, const std::optional<UserIds>& user,
                       const std::atomic<bool>& stop) {
  const absl::StatusOr<ProgramEnd> end = RunProgram(
      StackCommand(pid, user), {"PATH=/usr/bin:/bin:/usr/local/bin"}, {kLimit, kMaxBytes}, stop);
  if (absl::IsNotFound(end.status())) {
    return "setpriv and prlimit are not installed (Debian: util-linux): no frames of the program "
           "itself\n";
  }
  if (end.ok() && end->exit_code == kNoSuchProgram) {
    return "eu-stack is not installed (Debian: elfutils): no frames of the program itself\n";
  }
  if (!end.ok()) return absl::StrCat(end.status().message(), "\n");
  return absl::StrCat(end->out, end->err.substr(0, kMaxBytes / 16),
                      end->timed_out ? "eu-stack took too long and was ended\n" : "");
}

}  // namespace

std::string KernelStacks(pid_t pid) {
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  std::set<int> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(tasks, error)) {
    int thread = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &thread)) threads.insert(thread);
  }
  std::string text;
  size_t reported = 0;
  for (const int thread : threads) {
    if (reported++ == kMaxThreads || text.size() > kMaxBytes) {
      absl::StrAppend(&text, "... of ", threads.size(), " threads\n");
      break;
    }
    text += KernelThread(absl::StrCat(tasks, "/", thread), thread);
  }
  return threads.empty() ? absl::StrCat("process ", pid, " is gone\n") : text;
}

absl::Status SaveStacks(pid_t pid, const std::optional<UserIds>& user, const std::string& path,
                        const std::atomic<bool>& stop) {
  // The kernel's part first: reading the frames changes the threads' states.
  std::string text = absl::StrCat("process ", pid, "\n\n", KernelStacks(pid), "\n");
  text += UserStacks(pid, user, stop);
  return WriteSmallFile(path, text);
}

}  // namespace paceline
