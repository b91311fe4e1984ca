// Judges how a trainer ended, from the traces it left.
#ifndef WORKER_DAEMON_CORE_TRAINER_END_H_
#define WORKER_DAEMON_CORE_TRAINER_END_H_

#include <optional>
#include <string>

namespace paceline {

// Mirrors paceline.v1.FailureKind, with the same numbers.
enum class FailureKind {
  kNone = 0,
  kSignal = 1,
  kExitCode = 2,
  kError = 3,
  kOutOfMemory = 4,
  kCollective = 5,
  kInput = 6,
  kStart = 7,
  kOrphaned = 8,
  kLost = 9,
  kRestore = 10,
};

// What the parent of the process saw.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it exited by itself.
  bool out_of_memory = false;
  std::string start_error;      // Not empty: it was never started, and why.
  bool is_input_error = false;  // The start failed because of what the job names.
};

// What the trainer itself reported last.
struct LastWords {
  bool finished = false;                  // It completed all its steps.
  FailureKind kind = FailureKind::kNone;  // kNone: no error.
  std::string message;
};

struct TrainerEnd {
  FailureKind failure = FailureKind::kNone;
  int exit_code = 0;
  int signal = 0;
  std::string message;  // One line for people.
};

// `process` is missing when the parent died as well. Effects of a requested stop (our signals, a
// broken collective) are no failure; the trainer's own failure is one even then. `fenced` is why
// the node killed it (lease.h), or empty.
TrainerEnd JudgeEnd(const std::optional<ProcessEnd>& process, const LastWords& words,
                    bool stop_requested, const std::string& fenced = "");

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_TRAINER_END_H_
