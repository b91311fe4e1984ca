// For judge.cc only: the daemon's JudgeEnd without its types. Kinds are the numbers of
// paceline.v1.FailureKind, which the FailureKinds of both cores use.
#ifndef TESTS_SIM_JUDGE_END_H_
#define TESTS_SIM_JUDGE_END_H_

#include <string>

namespace paceline::sim {

struct JudgedEnd {
  int kind = 0;
  int exit_code = 0;
  int signal = 0;
  std::string message;
};

JudgedEnd JudgeProcess(bool seen, int exit_code, int signal, const std::string& start_error,
                       bool finished, int said, const std::string& message, bool stop_requested,
                       const std::string& fenced);

}  // namespace paceline::sim

#endif  // TESTS_SIM_JUDGE_END_H_
