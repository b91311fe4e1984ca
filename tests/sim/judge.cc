#include "tests/sim/judge.h"

#include "tests/sim/judge_end.h"

namespace paceline::sim {

TrainerExit Judge(const Remains& remains, bool stop_requested) {
  const JudgedEnd judged = JudgeProcess(
      remains.seen, remains.exit_code, remains.signal, remains.start_error, remains.finished,
      static_cast<int>(remains.said), remains.message, stop_requested, remains.fenced);
  TrainerExit exit;
  exit.failure = static_cast<FailureKind>(judged.kind);
  exit.exit_code = judged.exit_code;
  exit.signal = judged.signal;
  exit.message = judged.message;
  return exit;
}

}  // namespace paceline::sim
