// The real JudgeEnd of the daemon, in the controller's types: the two have types of the same name.
#ifndef TESTS_SIM_JUDGE_H_
#define TESTS_SIM_JUDGE_H_

#include <string>

#include "controller/core/job/trainer_state.h"

namespace paceline::sim {

// What is known of a process that has ended.
struct Remains {
  bool seen = false;  // By its parent; else its end is not known.
  int exit_code = 0;
  int signal = 0;
  std::string start_error;
  std::string fenced;  // Why its node killed it.
  bool finished = false;
  FailureKind said = FailureKind::kNone;  // In its last words.
  std::string message;
};

TrainerExit Judge(const Remains& remains, bool stop_requested);

}  // namespace paceline::sim

#endif  // TESTS_SIM_JUDGE_H_
