// Daemons of a dev cluster as processes: started detached, and ended without ever hitting another
// process that got the same id.
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
  std::string log_file;                // Standard output and error are appended to it.
  std::string directory;               // Working directory.
};

// Starts the program in a new session, without our open files and blocked signals, and returns its
// process id. It stays a child until this process ends.
absl::StatusOr<pid_t> StartDetached(const Command& command);

// How a child process ended: "exit code 10", "killed by SIGSEGV". Empty: it is running.
std::string EndOfChild(pid_t child);

// Sends `signal` to `pid` if `is_ours()` still returns true once no other process can get that id.
// Returns false if the process is gone or not ours.
bool SignalIfOurs(pid_t pid, int signal, const std::function<bool()>& is_ours);

// Sends SIGTERM, and SIGKILL after `grace`, and waits until the process is gone. `holder` returns
// the id of the process to end, or 0 if there is none. DeadlineExceeded if it stays.
absl::Status EndProcess(const std::function<pid_t()>& holder, absl::Duration grace);

// Polls until `done()` is true; returns false after `timeout`.
bool WaitUntil(const std::function<bool()>& done, absl::Duration timeout);

// Last `lines` lines of a file; empty if there are none.
std::string LastLines(const std::string& path, int lines);

}  // namespace paceline

#endif  // CLI_DEV_PROCESS_H_
