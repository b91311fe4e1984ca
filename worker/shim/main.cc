// paceline-shim: the parent of one trainer process. It outlives the daemon, so that the daemon
// can be replaced and still learns how the trainer ended.
//
//   paceline-shim --dir TRAINER_DIR --own-dir DIR --lock-fd N [--allowed-root DIR]...
//                 [--path FIELD=PATH]... [flags of confinement.h]
//                 [--working-directory DIR --environment FILE --log-segment-bytes N]
//                 -- PROGRAM ARGS...
//   paceline-shim --standby-fd N --standby-modules FILE [all of the above but the first line's]
//
// Holds the trainer's lock (trainer_lock.h), inherited as descriptor N. Runs the program, confined
// (confinement.h), in the trainer's own directory and a new process group, with its output in the
// first log segment. The two die together. Leaves an exit record in TRAINER_DIR, which the program
// need not be able to write. Refuses to run it when one of the job's paths is outside the allowed
// roots (allowed_roots.h). On SIGTERM passes it on, also to what a command that ends of it leaves
// behind; on SIGUSR1 kills the group.
//
// A program of the job's own (a command) starts in the working directory, with only the variables
// of the file (each "KEY=value" and a NUL; none of the shim's, which may be root's), and is looked
// up in their PATH. Its output is pumped into the log (log_pump.h).
//
// With --standby-fd the program is an interpreter that stands by for a command
// (python/paceline/standby.py). Socket N later says which trainer it becomes: one packet of
// "TRAINER_DIR", "DIR" and the environment file, separated by NULs, with the lock as a descriptor.
// What the interpreter reports before is passed on there. When the socket closes, all ends.
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/exit_codes.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/job_program.h"
#include "worker/shim/log_pump.h"
#include "worker/shim/oom_watch.h"
#include "worker/shim/shim_arguments.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

// How long the killed rest of the process group may take to disappear.
constexpr uint64_t kReapNanos = 5'000'000'000;
constexpr size_t kMostOrderBytes = 16 * 1024;

// Closes all inherited descriptors but the lock or socket: an open pipe of the daemon would keep
// its reader waiting for as long as the trainer lives.
void CloseInherited(int lock_fd) {
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (lock_fd > 3) ::close_range(3, static_cast<unsigned>(lock_fd) - 1, 0);
  ::close_range(static_cast<unsigned>(lock_fd) + 1, ~0U, 0);
  ::fcntl(lock_fd, F_SETFD, FD_CLOEXEC);
}

// Children of this process; orphaned descendants are among them.
std::vector<pid_t> Children() {
  std::ifstream file(absl::StrCat("/proc/self/task/", ::getpid(), "/children"));
  return {std::istream_iterator<pid_t>(file), std::istream_iterator<pid_t>()};
}

// Kills what is left of the trainer: its group, and descendants outside of it that became children
// of this process when their parents died. True when none is left.
bool KillLeftovers(pid_t trainer) {
  ::kill(-trainer, SIGKILL);
  for (const pid_t child : Children()) ::kill(child, SIGKILL);
  pid_t reaped;
  do {
    reaped = ::waitpid(-1, nullptr, WNOHANG);
  } while (reaped > 0);
  return reaped < 0 && errno == ECHILD;
}

uint64_t NowNanos() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Waits for output and for signals, which arrive by a descriptor.
class Waiter {
 public:
  // `pump` may be null; otherwise it must outlive the waiter.
  Waiter(int signal_fd, LogPump* pump) : signal_fd_(signal_fd), pump_(pump) {}

  // Waits at most `milliseconds`, takes output, and calls `on_signal` for each signal.
  template <typename OnSignal>
  void Wait(int milliseconds, const OnSignal& on_signal) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {pump_ != nullptr ? pump_->fd() : -1, POLLIN, 0}};
    if (::poll(fds, 2, milliseconds) <= 0) return;
    if (fds[1].revents != 0) pump_->Pump();
    signalfd_siginfo signal;
    while (::read(signal_fd_, &signal, sizeof(signal)) == sizeof(signal)) {
      on_signal(static_cast<int>(signal.ssi_signo));
    }
  }

 private:
  const int signal_fd_;
  LogPump* const pump_;
};

// Waits until the trainer ends and records how. True if it was asked to stop before.
bool Wait(pid_t trainer, Waiter& waiter, ExitRecord& record) {
  bool stopped = false;
  OomWatch oom;
  constexpr uint64_t kSampleNanos = uint64_t{OomWatch::kSampleSeconds} * 1'000'000'000;
  uint64_t sampled = NowNanos();
  while (true) {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != trainer) continue;
      record.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      record.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      record.end_ns = NowNanos();
      record.out_of_memory = record.signal == SIGKILL && oom.Grew();
      return stopped;
    }
    waiter.Wait(OomWatch::kSampleSeconds * 1000, [&](int signal) {
      if (signal == SIGTERM) stopped = ::kill(trainer, SIGTERM) == 0;
      if (signal == SIGUSR1) ::kill(-trainer, SIGKILL);
    });
    if (NowNanos() - sampled >= kSampleNanos) {
      oom.Sample();
      sampled = NowNanos();
    }
  }
}

// A wrapper that ended at once on SIGTERM (a shell, `accelerate launch`) leaves its actual program
// behind. Asks that one to end, too, within what is left of the grace period.
void StopOrphans(Waiter& waiter) {
  std::set<pid_t> asked;
  bool killed = false;
  while (!killed) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> orphans = Children();
    if (orphans.empty()) return;
    for (const pid_t orphan : orphans) {
      if (asked.insert(orphan).second) ::kill(orphan, SIGTERM);
    }
    waiter.Wait(1000, [&](int signal) { killed |= signal == SIGUSR1; });
  }
}

void ReapLeftovers(pid_t trainer, Waiter& waiter) {
  const uint64_t give_up = NowNanos() + kReapNanos;
  while (!KillLeftovers(trainer) && NowNanos() <= give_up) waiter.Wait(20, [](int) {});
}

// Returns why the program was not started; empty if it was. Requires: the child has ended.
std::string FailureOf(const Child& child) {
  ExitRecord record;
  TakeFailure(child.failure, record);
  return record.start_error;
}

// Reads the daemon's order into `arguments`. False: there is none, and this process is not needed.
bool TakeOrder(ShimArguments& arguments) {
  char text[kMostOrderBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec data = {text, sizeof(text)};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = ::recvmsg(arguments.standby_fd, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return false;
  std::memcpy(&arguments.lock_fd, CMSG_DATA(rights), sizeof(int));
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text, static_cast<size_t>(size)), '\0');
  if (words.size() != 3) return false;
  arguments.dir = words[0];
  arguments.own_dir = words[1];
  arguments.environment_file = words[2];
  return true;
}

// Starts an interpreter and waits for the order to become a trainer. Without an order, all ends.
std::optional<Child> StandBy(ShimArguments& arguments, CommandParts& parts, int signal_fd) {
  int ends[2];
  if (!OpenCommand(arguments, parts).ok() ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return std::nullopt;
  }
  absl::StrAppend(&parts.environment, "PACELINE_STANDBY=", arguments.standby_modules);
  parts.environment.push_back('\0');
  const int interpreter = ends[0];
  parts.standby = ends[1];
  ExitRecord record;
  const Child child = StartProgram(arguments, parts, record);
  ::close(ends[1]);
  parts.pump->CloseInput();
  if (child.pid < 0) return std::nullopt;
  const auto tell = [&](absl::string_view words) {
    ::send(arguments.standby_fd, words.data(), words.size(), MSG_NOSIGNAL);
  };
  bool wanted = true;
  while (wanted) {
    pollfd fds[] = {
        {signal_fd, POLLIN, 0}, {interpreter, POLLIN, 0}, {arguments.standby_fd, POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0) continue;
    char words[kMostFailureBytes];
    const ssize_t size = fds[1].revents != 0 ? ::read(interpreter, words, sizeof(words)) : -1;
    if (size > 0) tell({words, static_cast<size_t>(size)});
    signalfd_siginfo signal;
    while (::read(signal_fd, &signal, sizeof(signal)) == sizeof(signal)) {
      if (signal.ssi_signo != SIGCHLD) wanted = false;
    }
    if (::waitpid(child.pid, nullptr, WNOHANG) == child.pid) {
      const std::string failure = FailureOf(child);
      if (!failure.empty()) tell(absl::StrCat("n", failure));
      break;
    }
    if (wanted && fds[2].revents != 0) {
      if (!TakeOrder(arguments)) break;
      std::string environment;
      absl::Status status = ReadEnvironment(arguments, environment);
      if (status.ok()) status = OpenLog(arguments, *parts.pump);
      if (status.ok()) {
        // If the interpreter has died meanwhile, its end will show, as a trainer's does.
        ::send(interpreter, environment.data(), environment.size(), MSG_NOSIGNAL);
        ::close(interpreter);
        ::close(arguments.standby_fd);
        return child;
      }
      record.start_error = std::string(status.message());
      WriteExitRecord(arguments.dir, record).IgnoreError();
      break;
    }
  }
  Waiter waiter(signal_fd, nullptr);
  ReapLeftovers(child.pid, waiter);
  return std::nullopt;
}

int Main(int argc, char** argv) {
  ShimArguments arguments;
  if (!ParseShimArguments(argc, argv, arguments)) {
    std::cerr << "usage: paceline-shim --dir TRAINER_DIR --own-dir DIR --lock-fd N [...] -- "
                 "PROGRAM ARGS...\nIt is started by paceline-worker.\n";
    return kExitUsage;
  }
  CloseInherited(arguments.is_standby() ? arguments.standby_fd : arguments.lock_fd);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);

  const int signal_fd = ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);

  ExitRecord record;
  CommandParts parts;
  Child trainer;
  if (arguments.is_standby()) {
    const std::optional<Child> child = StandBy(arguments, parts, signal_fd);
    if (!child.has_value()) return kExitOk;
    trainer = *child;
  }
  const TrainerLock lock(arguments.lock_fd);
  if (arguments.is_command() && !arguments.is_standby()) {
    if (const absl::Status status = OpenCommand(arguments, parts); !status.ok()) {
      record.start_error = std::string(status.message());
      return WriteExitRecord(arguments.dir, record).ok() ? kExitOk : kExitFailure;
    }
  }
  if (!arguments.is_standby()) trainer = StartProgram(arguments, parts, record);
  LogPump* const pump = parts.pump.has_value() ? &*parts.pump : nullptr;
  if (pump != nullptr) pump->CloseInput();
  Waiter waiter(signal_fd, pump);
  if (trainer.pid > 0) {
    // Write the ids at once: what precedes the program may hang in a file system. If this fails,
    // the daemon still sees the lock, and nothing better can be done here.
    lock.WriteProcesses(::getpid(), trainer.pid).IgnoreError();
    const bool stopped = Wait(trainer.pid, waiter, record);
    TakeFailure(trainer.failure, record);
    if (stopped && arguments.is_command() && record.signal == SIGTERM) StopOrphans(waiter);
    ReapLeftovers(trainer.pid, waiter);
  }
  while (pump != nullptr && pump->Pump()) {
  }
  return WriteExitRecord(arguments.dir, record).ok() ? kExitOk : kExitFailure;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
