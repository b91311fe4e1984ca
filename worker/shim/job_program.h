// The program of the job that the shim starts: what it needs besides its arguments, its process,
// and why it was not started.
#ifndef WORKER_SHIM_JOB_PROGRAM_H_
#define WORKER_SHIM_JOB_PROGRAM_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/log_pump.h"
#include "worker/shim/shim_arguments.h"

namespace paceline {

// Limit on the reason why a program was not started: it must fit into an empty pipe at once.
inline constexpr size_t kMostFailureBytes = 4000;

// More parts of a command, opened before any process of the job exists.
struct CommandParts {
  std::string environment;  // The file's text.
  std::optional<LogPump> pump;
  int standby = -1;  // The program's end of the socket to a standby interpreter.
};

// The file of the environment as text.
absl::Status ReadEnvironment(const ShimArguments& arguments, std::string& environment);
// Has the output pumped into the trainer's log from now on.
absl::Status OpenLog(const ShimArguments& arguments, LogPump& pump);
// Opens the parts of a command; the log only if the trainer is known already.
absl::Status OpenCommand(const ShimArguments& arguments, CommandParts& parts);

struct Child {
  pid_t pid = -1;
  int failure = -1;  // Receives the reason why the program was not started; at its end once it was.
};

// Starts the program. If there is no child, `record` has the reason.
Child StartProgram(const ShimArguments& arguments, const CommandParts& parts, ExitRecord& record);

// Requires: the child has ended. If the program was never started, puts the reason on record.
void TakeFailure(int failure, ExitRecord& record);

}  // namespace paceline

#endif  // WORKER_SHIM_JOB_PROGRAM_H_
