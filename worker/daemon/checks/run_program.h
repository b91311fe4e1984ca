// Runs a program within limits and collects its output.
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
  size_t bytes = 1 << 20;  // Kept of each output stream; the rest is dropped.
};

struct ProgramEnd {
  int exit_code = -1;      // -1: a signal ended it.
  bool timed_out = false;  // Killed by us because its time was over.
  std::string out;
  std::string err;  // The beginning of its stderr.
};

// `arguments` are the program, looked up in PATH unless it has a slash, and its arguments. Blocks
// until the program ends. Kills it and its process group when its time is over, or when `stop`
// becomes true (returns Cancelled then). NotFound when the program does not exist.
absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> arguments,
                                      std::vector<std::string> environment,
                                      const ProgramLimits& limits, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKS_RUN_PROGRAM_H_
