#include "worker/daemon/core/trainer_end.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// The exit code of a shell whose program SIGTERM ended; other programs exit with it, too.
constexpr int kTerminatedByShell = 128 + SIGTERM;

std::string SignalText(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal)
                         : absl::StrCat("signal ", signal, " (SIG", name, ")");
}

std::string EndText(const ProcessEnd& process) {
  return process.signal != 0 ? absl::StrCat("ended by ", SignalText(process.signal))
                             : absl::StrCat("exited with code ", process.exit_code);
}

// Whether a trainer that was asked to stop ends like this. A trainer that reports its own failure
// ends otherwise, and that failure may have caused the stop.
bool FollowsFromStop(const ProcessEnd& process, const LastWords& words) {
  if (words.kind == FailureKind::kCollective) return true;
  if (words.kind != FailureKind::kNone || process.out_of_memory) return false;
  return process.signal == SIGTERM || process.signal == SIGKILL ||
         (process.signal == 0 &&
          (process.exit_code == 0 || process.exit_code == kTerminatedByShell));
}

void Judge(const ProcessEnd& process, const LastWords& words, bool stop_requested,
           TrainerEnd& end) {
  if (!process.start_error.empty()) {
    end.failure = process.is_input_error ? FailureKind::kInput : FailureKind::kStart;
    end.message = process.start_error;
  } else if (stop_requested && FollowsFromStop(process, words)) {
    end.message = absl::StrCat("stopped on request: ", EndText(process));
  } else if (words.kind != FailureKind::kNone) {
    end.failure = words.kind;
    end.message = words.message;
  } else if (process.signal == SIGKILL && process.out_of_memory) {
    end.failure = FailureKind::kOutOfMemory;
    end.message = "killed by the kernel: the node ran out of memory";
  } else if (process.signal != 0) {
    end.failure = FailureKind::kSignal;
    end.message = EndText(process);
  } else if (process.exit_code != 0) {
    end.failure = FailureKind::kExitCode;
    end.message = EndText(process);
  } else if (!words.finished) {
    end.failure = FailureKind::kExitCode;
    end.message = "exited with code 0 before it had finished; somebody else may have sent SIGTERM";
  }
}

}  // namespace

TrainerEnd JudgeEnd(const std::optional<ProcessEnd>& process, const LastWords& words,
                    bool stop_requested, const std::string& fenced) {
  TrainerEnd end;
  const bool killed =
      !process.has_value() || (process->signal == SIGKILL && !process->out_of_memory);
  if (!fenced.empty() && killed) {
    end.failure = FailureKind::kLost;
    end.signal = SIGKILL;
    end.message = fenced;
  } else if (process.has_value()) {
    end.exit_code = process->exit_code;
    end.signal = process->signal;
    Judge(*process, words, stop_requested, end);
  } else if (words.kind != FailureKind::kNone &&
             !(stop_requested && words.kind == FailureKind::kCollective)) {
    end.failure = words.kind;
    end.message = words.message;
  } else if (!words.finished && !stop_requested) {
    end.failure = FailureKind::kLost;
    end.message =
        "gone without a trace: its node restarted, or its parent process was killed with it";
  }
  return end;
}

}  // namespace paceline
