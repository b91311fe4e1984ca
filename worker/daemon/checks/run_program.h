// Runs a program and takes what it says, within limits.
#ifndef WORKER_DAEMON_CHECKS_RUN_PROGRAM_H_
#define WORKER_DAEMON_CHECKS_RUN_PROGRAM_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

struct ProgramLimits {
  absl::Duration time;
  size_t bytes = 1 << 20;  // Of its output; what is beyond is dropped.
};

struct ProgramEnd {
  int exit_code = -1;      // -1: it was ended by a signal.
  bool timed_out = false;  // By ours, since its time was over.
  std::string out;
  std::string err;  // The beginning of it.
};

// `arguments`: the program, looked up in PATH unless it has a slash, and its arguments. Blocks
// until it has ended; it is killed, with its process group, when its time is over or `stop` becomes
// true (Cancelled then). NotFound when there is no such program.
absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> arguments,
                                      std::vector<std::string> environment,
                                      const ProgramLimits& limits, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKS_RUN_PROGRAM_H_
