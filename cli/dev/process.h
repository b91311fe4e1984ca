// Daemons of a dev cluster as processes: started detached, ended without ever hitting
// another process that got the same id.
#ifndef CLI_DEV_PROCESS_H_
#define CLI_DEV_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

struct Command {
  std::vector<std::string> arguments;  // The first is the program's path.
  std::string log_file;                // Output and errors are added to it.
  std::string directory;               // Where it runs.
};

// Starts the program in a session of its own, with no open file of ours and no blocked
// signal, and returns its process id. It is a child until this process ends.
absl::StatusOr<pid_t> StartDetached(const Command& command);

// How a child of ours ended: "exit code 10", "killed by SIGSEGV". Empty: it runs.
std::string EndOfChild(pid_t child);

// Sends `signal` to `pid` if `is_ours()` still says so once no other process can get that
// id. False when it is gone or not ours.
bool SignalIfOurs(pid_t pid, int signal, const std::function<bool()>& is_ours);

// SIGTERM, and SIGKILL after `grace`; waits until the process is gone. `holder` returns the
// id of the process to end, 0 once there is none. DeadlineExceeded when it stays.
absl::Status EndProcess(const std::function<pid_t()>& holder, absl::Duration grace);

// Waits until `done()` is true, looking often; false when `timeout` is over.
bool WaitUntil(const std::function<bool()>& done, absl::Duration timeout);

// The last `lines` lines of a file; empty when there are none.
std::string LastLines(const std::string& path, int lines);

}  // namespace paceline

#endif  // CLI_DEV_PROCESS_H_
