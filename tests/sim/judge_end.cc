#include "tests/sim/judge_end.h"

#include "worker/daemon/core/trainer_end.h"

namespace paceline::sim {

JudgedEnd JudgeProcess(bool seen, int exit_code, int signal, const std::string& start_error,
                       bool finished, int said, const std::string& message, bool stop_requested,
                       const std::string& fenced) {
  std::optional<ProcessEnd> process;
  if (seen) {
    process = ProcessEnd();
    process->exit_code = exit_code;
    process->signal = signal;
    process->start_error = start_error;
  }
  LastWords words;
  words.finished = finished;
  words.kind = static_cast<FailureKind>(said);
  words.message = message;
  const TrainerEnd end = JudgeEnd(process, words, stop_requested, fenced);
  return {static_cast<int>(end.failure), end.exit_code, end.signal, end.message};
}

}  // namespace paceline::sim
