// The real JudgeEnd of the daemon, in the controller's types: the two have types of the same name.
#ifndef TESTS_SIM_JUDGE_H_
#define TESTS_SIM_JUDGE_H_

#include <string>

#include "controller/core/job/trainer_state.h"

namespace paceline::sim {

// What is left of a process that has ended.
struct Remains {
  bool seen = false;  // By its parent; else nobody knows how it ended.
  int exit_code = 0;
  int signal = 0;
  std::string start_error;
  std::string fenced;  // Why its node has killed it.
  bool finished = false;
  FailureKind said = FailureKind::kNone;  // At last, by itself.
  std::string message;
};

TrainerExit Judge(const Remains& remains, bool stop_requested);

}  // namespace paceline::sim

#endif  // TESTS_SIM_JUDGE_H_
