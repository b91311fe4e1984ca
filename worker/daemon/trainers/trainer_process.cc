#include "worker/daemon/trainers/trainer_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"
#include "worker/daemon/trainers/process_state.h"
#include "worker/shim/trainer_lock.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace paceline {
namespace {

// Descriptor number that the shim inherits for the lock or a socket.
constexpr int kGivenFd = 3;
// Limit on the reason why an interpreter does not stand by.
constexpr size_t kMostWords = 4096;

// The C library has this since 2.36, but the wheel (tools/wheel.sh) also runs with older ones.
int OpenPidFd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

void SignalPidFd(int fd, int signal) { ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0); }

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the child's id, or a negative errno.
pid_t Spawn(std::vector<std::string> arguments, std::vector<std::string> environment,
            int given_fd) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Also clears close-on-exec when both numbers are the same.
  ::posix_spawn_file_actions_adddup2(&actions, given_fd, kGivenFd);
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

// Starts the shim with `flags` and the flags of `command`. Returns the same as Spawn.
pid_t SpawnShim(const TrainerProcess::Command& command, std::vector<std::string> flags,
                int given_fd) {
  std::vector<std::string> arguments = std::move(flags);
  arguments.insert(arguments.begin(), command.shim);
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
  return Spawn(std::move(arguments), command.environment, given_fd);
}

// Opens a descriptor of the shim, which keeps naming this process when its id is reused.
absl::StatusOr<int> Watch(pid_t shim, const std::string& program) {
  if (shim < 0) return absl::ErrnoToStatus(-shim, absl::StrCat("cannot start ", program));
  const int fd = OpenPidFd(shim);
  if (fd >= 0) return fd;
  const absl::Status status = absl::ErrnoToStatus(errno, "cannot watch the shim");
  ::kill(shim, SIGKILL);
  ::waitpid(shim, nullptr, 0);
  return status;
}

}  // namespace

absl::StatusOr<TrainerProcess> TrainerProcess::Start(const Command& command) {
  PACELINE_ASSIGN_OR_RETURN(const TrainerLock lock, TrainerLock::Take(command.trainer_dir));
  const pid_t shim = SpawnShim(command,
                               {"--dir", command.trainer_dir, "--own-dir", command.own_dir,
                                "--lock-fd", absl::StrCat(kGivenFd)},
                               lock.fd());
  PACELINE_ASSIGN_OR_RETURN(const int fd, Watch(shim, command.shim));
  return TrainerProcess(fd, shim);
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
  // The lock is still held, so the id belonged to the holder when it was opened.
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

bool TrainerProcess::Reap() const {
  siginfo_t info = {};
  const int result =
      ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(fd_), &info, WEXITED | WNOHANG);
  return result != 0 || info.si_pid != 0;
}

absl::StatusOr<StandbyProcess> StandbyProcess::Start(const TrainerProcess::Command& command,
                                                     const std::string& modules_file) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pair of sockets");
  }
  const pid_t shim = SpawnShim(
      command, {"--standby-fd", absl::StrCat(kGivenFd), "--standby-modules", modules_file},
      ends[1]);
  ::close(ends[1]);
  const absl::StatusOr<int> fd = Watch(shim, command.shim);
  if (!fd.ok()) ::close(ends[0]);
  PACELINE_RETURN_IF_ERROR(fd.status());
  return StandbyProcess(TrainerProcess(*fd, shim), ends[0]);
}

StandbyProcess::StandbyProcess(StandbyProcess&& other) noexcept
    : process_(std::move(other.process_)), socket_(std::exchange(other.socket_, -1)) {}

StandbyProcess& StandbyProcess::operator=(StandbyProcess&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(socket_, other.socket_);
  return *this;
}

StandbyProcess::~StandbyProcess() {
  if (socket_ >= 0) ::close(socket_);
}

std::optional<absl::Status> StandbyProcess::News() {
  char words[kMostWords];
  const ssize_t size = ::recv(socket_, words, sizeof(words), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (size <= 0) return absl::UnavailableError("it has ended");
  if (words[0] == 'r') return absl::OkStatus();
  return absl::UnavailableError(absl::string_view(words + 1, static_cast<size_t>(size) - 1));
}

absl::StatusOr<TrainerProcess> StandbyProcess::Become(const TrainerProcess::Command& command) {
  PACELINE_ASSIGN_OR_RETURN(const TrainerLock lock, TrainerLock::Take(command.trainer_dir));
  std::string order = absl::StrJoin(
      {command.trainer_dir, command.own_dir, command.environment_file}, absl::string_view("\0", 1));
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {order.data(), order.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = lock.fd();
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  if (::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return absl::ErrnoToStatus(errno, "cannot reach the interpreter that stands by");
  }
  ::close(std::exchange(socket_, -1));
  return std::move(process_);
}

TrainerProcess StandbyProcess::End() && {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  return std::move(process_);
}

}  // namespace paceline
