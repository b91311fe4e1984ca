// A child process of a test: started, watched, killed, and never left behind.
//
// Thread-compatible.
#ifndef TESTS_INTEGRATION_PROCESS_H_
#define TESTS_INTEGRATION_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace paceline {

class Process {
 public:
  // Starts argv[0] with its output appended to the file `log`. The test fails at once when
  // it cannot.
  Process(const std::vector<std::string>& argv, const std::string& log);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  // Kills it if it still runs.
  ~Process();

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Its exit code, or 128 + the signal that ended it. Waits for at most `limit`, after which
  // it is killed and the result is -1.
  int Wait(absl::Duration limit = absl::Seconds(30));
  void Kill();

 private:
  pid_t pid_ = 0;
  std::optional<int> exit_code_;
};

// Runs a command to its end: exit code and everything that it wrote to its outputs.
struct Finished {
  int exit_code = 0;
  std::string output;
};
Finished RunToEnd(const std::vector<std::string>& argv, absl::Duration limit = absl::Minutes(2));

// Processes with `text` in their command line, except zombies and the caller.
std::vector<pid_t> ProcessesMentioning(const std::string& text);

// Checks `condition` every few milliseconds until it holds; false after `limit`.
template <typename Condition>
bool Eventually(Condition condition, absl::Duration limit = absl::Seconds(30)) {
  const absl::Time deadline = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// The contents of a file; empty when it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace paceline

#endif  // TESTS_INTEGRATION_PROCESS_H_
