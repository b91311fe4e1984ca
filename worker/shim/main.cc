// paceline-shim: the parent of one trainer process. It outlives the daemon, so that the daemon
// can be replaced and still learns how the trainer ended.
//
//   paceline-shim --dir TRAINER_DIR --log-dir DIR --lock-fd N -- PROGRAM ARGS...
//
// Holds the trainer's lock (trainer_lock.h), which it inherits as descriptor N; runs the program
// in TRAINER_DIR in a process group of its own, with its output in the first log segment; dies
// with it and takes it along; leaves an exit record. Answers SIGTERM (passed on) and SIGUSR1
// (kills the group).
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/oom_watch.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

// How long what is left of the process group may take to go, once killed.
constexpr int kReapSeconds = 5;

struct Arguments {
  std::string dir;
  std::string log_dir;
  int lock_fd = -1;
  char** program = nullptr;  // Ends with a null pointer.
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--") {
      arguments.program = argv + i + 1;
      break;
    }
    if (flag == "--dir") arguments.dir = argv[i + 1];
    if (flag == "--log-dir") arguments.log_dir = argv[i + 1];
    if (flag == "--lock-fd" && !absl::SimpleAtoi(argv[i + 1], &arguments.lock_fd)) return false;
  }
  return !arguments.dir.empty() && !arguments.log_dir.empty() && arguments.lock_fd > 2 &&
         arguments.program != nullptr;
}

// Drops everything inherited but the lock: an open pipe of the daemon's would keep its reader
// waiting for as long as the trainer lives.
void CloseInherited(int lock_fd) {
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (lock_fd > 3) ::close_range(3, static_cast<unsigned>(lock_fd) - 1, 0);
  ::close_range(static_cast<unsigned>(lock_fd) + 1, ~0U, 0);
  ::fcntl(lock_fd, F_SETFD, FD_CLOEXEC);
}

// In the child. Returns only when the program could not be started, with the reason in errno.
void Exec(const Arguments& arguments, pid_t shim) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shim) ::_exit(kExitFailure);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const std::string segment = absl::StrCat(arguments.log_dir, "/", trainer_dir::kFirstLogSegment);
  const int log = ::open(segment.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0 || ::chdir(arguments.dir.c_str()) != 0) return;
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::execv(arguments.program[0], arguments.program);
}

// Starts the program. On failure returns -1, with the reason in `record`.
pid_t Start(const Arguments& arguments, ExitRecord& record) {
  int failure[2];  // Closed by a successful exec, else carries errno.
  if (::pipe2(failure, O_CLOEXEC) != 0) {
    record.start_error = absl::StrCat("cannot make a pipe: ", std::strerror(errno));
    return -1;
  }
  const pid_t shim = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    Exec(arguments, shim);
    const int error = errno;
    if (::write(failure[1], &error, sizeof(error)) < 0) ::_exit(kExitUsage);
    ::_exit(kExitFailure);
  }
  const int fork_error = errno;
  ::close(failure[1]);
  int error = child < 0 ? fork_error : 0;
  if (child >= 0 && ::read(failure[0], &error, sizeof(error)) == ssize_t{sizeof(error)}) {
    ::waitpid(child, nullptr, 0);
  }
  ::close(failure[0]);
  if (error == 0) return child;
  record.start_error =
      absl::StrCat("cannot start ", arguments.program[0], ": ", std::strerror(error));
  return -1;
}

// Kills what is left of the trainer: its group, and descendants that left the group and became
// children of this process when their parents died. True when none is left.
bool KillLeftovers(pid_t trainer) {
  ::kill(-trainer, SIGKILL);
  std::ifstream children(absl::StrCat("/proc/self/task/", ::getpid(), "/children"));
  for (pid_t child; children >> child;) ::kill(child, SIGKILL);
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

// Waits until the trainer ends and fills in how.
void Wait(pid_t trainer, const sigset_t& signals, ExitRecord& record) {
  OomWatch oom;
  const timespec sample{OomWatch::kSampleSeconds, 0};
  while (true) {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != trainer) continue;
      record.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      record.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      record.end_ns = NowNanos();
      record.out_of_memory = record.signal == SIGKILL && oom.Grew();
      return;
    }
    const int signal = ::sigtimedwait(&signals, nullptr, &sample);
    if (signal == SIGTERM) ::kill(trainer, SIGTERM);
    if (signal == SIGUSR1) ::kill(-trainer, SIGKILL);
    if (signal < 0 && errno == EAGAIN) oom.Sample();
  }
}

void ReapLeftovers(pid_t trainer, const sigset_t& signals) {
  const timespec step{0, 20'000'000};
  const time_t give_up = ::time(nullptr) + kReapSeconds;
  while (!KillLeftovers(trainer) && ::time(nullptr) <= give_up) {
    ::sigtimedwait(&signals, nullptr, &step);
  }
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::cerr << "usage: paceline-shim --dir TRAINER_DIR --log-dir DIR --lock-fd N -- "
                 "PROGRAM ARGS...\nIt is started by paceline-worker.\n";
    return kExitUsage;
  }
  CloseInherited(arguments.lock_fd);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);

  const TrainerLock lock(arguments.lock_fd);
  ExitRecord record;
  const pid_t trainer = Start(arguments, record);
  if (trainer > 0) {
    // A daemon that cannot read the ids still sees the lock; nothing better to do here.
    lock.WriteProcesses(::getpid(), trainer).IgnoreError();
    Wait(trainer, signals, record);
    ReapLeftovers(trainer, signals);
  }
  return WriteExitRecord(arguments.dir, record).ok() ? kExitOk : kExitFailure;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
