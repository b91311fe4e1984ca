#include "cli/dev/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <ios>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/boot_clock.h"

namespace paceline {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(10);
constexpr absl::Duration kKillWait = absl::Seconds(10);

class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

}  // namespace

absl::StatusOr<pid_t> StartDetached(const Command& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  SpawnAttributes how;
  posix_spawn_file_actions_addopen(&how.actions_, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&how.actions_, 1, command.log_file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&how.actions_, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&how.actions_, 3);
  posix_spawn_file_actions_addchdir_np(&how.actions_, command.directory.c_str());
  pid_t child = 0;
  const int error =
      posix_spawn(&child, arguments[0], &how.actions_, &how.attributes_, arguments.data(), environ);
  if (error == 0) return child;
  return absl::UnknownError(
      absl::StrCat("cannot start ", command.arguments[0], ": ", strerror(error)));
}

std::string EndOfChild(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return "";
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return absl::StrCat("killed by SIG", name == nullptr ? "?" : name);
  }
  return absl::StrCat("exit code ", WEXITSTATUS(status));
}

bool SignalIfOurs(pid_t pid, int signal, const std::function<bool()>& is_ours) {
  // While the descriptor is open, reuse of the id by another process is noticed.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return false;
  const bool sent = is_ours() && syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
  close(fd);
  return sent;
}

absl::Status EndProcess(const std::function<pid_t()>& holder, absl::Duration grace) {
  const pid_t pid = holder();
  if (pid == 0) return absl::OkStatus();
  pollfd end{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  const absl::Cleanup closed = [&end] {
    if (end.fd >= 0) close(end.fd);
  };
  // While the descriptor is open, it cannot refer to another process.
  if (end.fd < 0 || holder() != pid) return absl::OkStatus();
  const auto signal = [&](int number) {
    syscall(SYS_pidfd_send_signal, end.fd, number, nullptr, 0);
  };
  // A process may stop being the holder some time before it ends.
  const auto gone = [&] {
    const bool holds = holder() == pid;
    waitpid(pid, nullptr, WNOHANG);  // A child stays a zombie until it is waited for.
    return !holds && poll(&end, 1, 0) == 1;
  };
  signal(SIGTERM);
  if (WaitUntil(gone, grace)) return absl::OkStatus();
  signal(SIGKILL);
  if (WaitUntil(gone, kKillWait)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("process ", pid, " does not go, not even after SIGKILL"));
}

bool WaitUntil(const std::function<bool()>& done, absl::Duration timeout) {
  const absl::Time deadline = BootNow() + timeout;
  while (!done()) {
    if (BootNow() >= deadline) return false;
    absl::SleepFor(kLook);
  }
  return true;
}

std::string LastLines(const std::string& path, int lines) {
  constexpr std::streamoff kMost = 8192;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kMost));
  std::string text(static_cast<size_t>(std::min(size, kMost)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  size_t begin = text.size();
  for (int i = 0; i <= lines && begin != std::string::npos && begin > 0; ++i) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == std::string::npos || begin == 0 ? text : text.substr(begin + 1);
}

}  // namespace paceline
