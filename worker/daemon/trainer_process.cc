#include "worker/daemon/trainer_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/daemon/process_state.h"
#include "worker/shim/trainer_lock.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace paceline {
namespace {

// The lock's number in the shim.
constexpr int kLockFd = 3;

// As the C library has them since 2.36: the wheel (tools/wheel.sh) runs with older ones.
int OpenPidFd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

void SignalPidFd(int fd, int signal) { ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0); }

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the child's id, or minus an errno.
pid_t Spawn(std::vector<std::string> arguments, std::vector<std::string> environment, int lock_fd) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Onto itself this still clears close-on-exec.
  ::posix_spawn_file_actions_adddup2(&actions, lock_fd, kLockFd);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, arguments[0].c_str(), &actions, &attributes,
                                  Pointers(arguments).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -error;
}

}  // namespace

absl::StatusOr<TrainerProcess> TrainerProcess::Start(const Command& command) {
  PACELINE_ASSIGN_OR_RETURN(const TrainerLock lock, TrainerLock::Take(command.trainer_dir));
  std::vector<std::string> arguments = {command.shim,         "--dir",         command.trainer_dir,
                                        "--own-dir",          command.own_dir, "--lock-fd",
                                        absl::StrCat(kLockFd)};
  const std::vector<std::string> confinement = ConfinementFlags(command.confinement);
  arguments.insert(arguments.end(), confinement.begin(), confinement.end());
  for (const std::string& root : command.roots) {
    arguments.insert(arguments.end(), {"--allowed-root", root});
  }
  for (const NamedPath& named : command.paths) {
    arguments.insert(arguments.end(), {"--path", absl::StrCat(named.field, "=", named.path)});
  }
  if (!command.working_directory.empty()) {
    arguments.insert(
        arguments.end(),
        {"--working-directory", command.working_directory, "--environment",
         command.environment_file, "--log-segment-bytes", absl::StrCat(command.log_segment_bytes)});
  }
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), command.program.begin(), command.program.end());
  const pid_t shim = Spawn(std::move(arguments), command.environment, lock.fd());
  if (shim < 0) {
    return absl::ErrnoToStatus(-shim, absl::StrCat("cannot start ", command.shim));
  }
  const int fd = OpenPidFd(shim);
  if (fd >= 0) return TrainerProcess(fd, shim);
  const absl::Status status = absl::ErrnoToStatus(errno, "cannot watch the shim");
  ::kill(shim, SIGKILL);
  ::waitpid(shim, nullptr, 0);
  return status;
}

absl::StatusOr<std::optional<TrainerProcess>> TrainerProcess::Adopt(
    const std::string& trainer_dir) {
  PACELINE_ASSIGN_OR_RETURN(TrainerProcesses processes, ReadTrainerLock(trainer_dir));
  if (!processes.alive) return std::nullopt;
  if (processes.shim == 0) {
    return absl::UnavailableError(absl::StrCat("the trainer in ", trainer_dir, " is starting"));
  }
  const int fd = OpenPidFd(processes.shim);
  TrainerProcess process(fd, processes.shim);
  // Held still: the id did belong to the holder when it was opened.
  PACELINE_ASSIGN_OR_RETURN(processes, ReadTrainerLock(trainer_dir));
  if (!processes.alive) return std::nullopt;
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch process ", processes.shim, ": ", std::strerror(errno)));
  }
  return process;
}

TrainerProcess::TrainerProcess(TrainerProcess&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), shim_(other.shim_) {}

TrainerProcess& TrainerProcess::operator=(TrainerProcess&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(shim_, other.shim_);
  return *this;
}

TrainerProcess::~TrainerProcess() {
  if (fd_ >= 0) ::close(fd_);
}

bool TrainerProcess::IsTrainer(pid_t pid, const std::string& trainer_dir) const {
  if (pid <= 0) return false;
  const absl::StatusOr<TrainerProcesses> processes = ReadTrainerLock(trainer_dir);
  if (processes.ok() && processes->alive && processes->trainer == pid) return true;
  return ParentOf(pid) == shim_;
}

bool TrainerProcess::HasStarted(pid_t pid) const { return DescendsFrom(pid, shim_); }

void TrainerProcess::Terminate() const { SignalPidFd(fd_, SIGTERM); }

void TrainerProcess::Kill() const {
  SignalPidFd(fd_, SIGUSR1);
  SignalPidFd(fd_, SIGCONT);
}

void TrainerProcess::Reap() const {
  siginfo_t info;
  ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(fd_), &info, WEXITED | WNOHANG);
}

}  // namespace paceline
