#include "worker/shim/job_program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/exit_codes.h"
#include "worker/shim/small_file.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

// Descriptor at which a standby interpreter finds its socket.
constexpr int kStandbyFd = 3;

constexpr char kInputFailure = 'i';
constexpr char kStartFailure = 's';

// Makes this process die with the shim. A change of user undoes this: call it again then.
void FollowInDeath(pid_t shim) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shim) ::_exit(kExitFailure);
}

absl::Status CannotStart(const ShimArguments& arguments, absl::string_view step) {
  const int error = errno;
  const std::string what = step.empty() ? "" : absl::StrCat(", cannot ", step);
  return absl::InternalError(
      absl::StrCat("cannot start ", arguments.program[0], what, ": ", std::strerror(error)));
}

// Sends the program's output to its first log segment and enters its own directory.
absl::Status OpenOwnLog(const ShimArguments& arguments) {
  const std::string log_dir = absl::StrCat(arguments.own_dir, "/", trainer_dir::kLog);
  ::mkdir(log_dir.c_str(), 0700);
  const std::string segment = absl::StrCat(log_dir, "/", trainer_dir::kFirstLogSegment);
  const int log = ::open(segment.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0 || ::chdir(arguments.own_dir.c_str()) != 0) {
    return CannotStart(arguments, absl::StrCat("use ", arguments.own_dir));
  }
  ::dup2(log, 1);
  ::dup2(log, 2);
  return absl::OkStatus();
}

// Returns only on failure, with errno set. Like a shell, looks the program up in the new PATH.
void ExecCommand(const ShimArguments& arguments, std::string environment) {
  std::vector<char*> entries;
  for (size_t begin = 0; begin < environment.size();) {
    entries.push_back(&environment[begin]);
    begin += std::strlen(entries.back()) + 1;
    if (absl::StartsWith(entries.back(), "PATH=")) ::putenv(entries.back());
  }
  entries.push_back(nullptr);
  ::execvpe(arguments.program[0], arguments.program, entries.data());
}

// Passes `fd` to the program as descriptor `number`. Requires: any other descriptor of that number
// is no longer needed, or is closed by exec.
void KeepAs(int number, int fd) {
  if (fd == number) {
    ::fcntl(fd, F_SETFD, 0);
  } else {
    ::dup2(fd, number);
  }
}

// Runs in the child, which has one thread. Returns only when the program could not be started;
// PermissionDenied when the job named something wrong.
absl::Status Exec(const ShimArguments& arguments, const CommandParts& parts, pid_t shim) {
  ::setpgid(0, 0);
  FollowInDeath(shim);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const char* const failed = Confine(arguments.confinement)) {
    return CannotStart(arguments, failed);
  }
  FollowInDeath(shim);
  // Where Yama only lets parents trace, also let other processes of this user: the daemon reads a
  // hanging rank's stacks as that user. Without Yama the call fails and is not needed.
  if (arguments.confinement.user.has_value()) ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  // From here on as the trainer's user, so links in its own directory harm only that user.
  if (absl::Status status = CheckRoots(arguments.roots, arguments.paths); !status.ok()) {
    return status;
  }
  if (parts.pump.has_value()) {
    ::dup2(parts.pump->input(), 1);
    ::dup2(parts.pump->input(), 2);
    if (::chdir(arguments.working_directory.c_str()) != 0) {
      return absl::PermissionDeniedError(absl::StrCat(
          "working_directory ", arguments.working_directory, ": ", std::strerror(errno)));
    }
  } else if (absl::Status status = OpenOwnLog(arguments); !status.ok()) {
    return status;
  }
  // All descriptors close on exec already; this also covers those that a library of ours opens.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (parts.standby >= 0) KeepAs(kStandbyFd, parts.standby);
  if (const char* const failed = TakeLimits(arguments.confinement)) {
    return CannotStart(arguments, failed);
  }
  if (!arguments.is_command()) {
    ::execv(arguments.program[0], arguments.program);
    return CannotStart(arguments, "");
  }
  ExecCommand(arguments, parts.environment);
  return absl::PermissionDeniedError(CannotStart(arguments, "").message());
}

}  // namespace

absl::Status ReadEnvironment(const ShimArguments& arguments, std::string& environment) {
  absl::StatusOr<std::optional<std::string>> text = ReadSmallFile(arguments.environment_file);
  if (!text.ok()) return text.status();
  environment = text->value_or("");
  return absl::OkStatus();
}

absl::Status OpenLog(const ShimArguments& arguments, LogPump& pump) {
  return pump.OpenLog(absl::StrCat(arguments.own_dir, "/", trainer_dir::kLog));
}

absl::Status OpenCommand(const ShimArguments& arguments, CommandParts& parts) {
  absl::Status status = ReadEnvironment(arguments, parts.environment);
  if (!status.ok()) return status;
  absl::StatusOr<LogPump> pump =
      LogPump::Make(arguments.confinement.user, arguments.log_segment_bytes);
  if (!pump.ok()) return pump.status();
  parts.pump.emplace(*std::move(pump));
  return arguments.is_standby() ? absl::OkStatus() : OpenLog(arguments, *parts.pump);
}

Child StartProgram(const ShimArguments& arguments, const CommandParts& parts, ExitRecord& record) {
  int failure[2];
  if (::pipe2(failure, O_CLOEXEC) != 0) {
    record.start_error = absl::StrCat("cannot make a pipe: ", std::strerror(errno));
    return {};
  }
  const pid_t shim = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    const absl::Status status = Exec(arguments, parts, shim);
    const std::string text = absl::StrCat(
        std::string(1, absl::IsPermissionDenied(status) ? kInputFailure : kStartFailure),
        status.message().substr(0, kMostFailureBytes));
    const bool reported = ::write(failure[1], text.data(), text.size()) > 0;
    ::_exit(reported ? kExitFailure : kExitUsage);
  }
  const int fork_error = errno;
  ::close(failure[1]);
  if (child > 0) {
    // The child does the same: whoever kills the group must find it, whichever of us is first.
    ::setpgid(child, child);
    return {child, failure[0]};
  }
  ::close(failure[0]);
  record.start_error =
      absl::StrCat("cannot start ", arguments.program[0], ": ", std::strerror(fork_error));
  return {};
}

void TakeFailure(int failure, ExitRecord& record) {
  char text[kMostFailureBytes + 1];
  const ssize_t size = ::read(failure, text, sizeof(text));
  ::close(failure);
  if (size <= 1) return;
  record = ExitRecord();
  record.is_input_error = text[0] == kInputFailure;
  record.start_error = std::string(text + 1, static_cast<size_t>(size) - 1);
}

}  // namespace paceline
