// Reads the state of a process from /proc: whether it is suspended by SIGSTOP or a debugger, its
// parent, and the processor time of its descendants.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_
#define WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// The state letter in the text of /proc/<pid>/stat (proc(5)); '\0' if there is none.
char StateLetter(absl::string_view stat);

// The parent's id in that text; 0 if there is none.
pid_t ParentIn(absl::string_view stat);

// The current parent of a process; 0 if the process is gone.
pid_t ParentOf(pid_t pid);

// Whether `pid` descends from `ancestor`, within 32 generations.
bool DescendsFrom(pid_t pid, pid_t ancestor);

// Processor time of all descendants of `root`, in steps of the kernel's tick: living ones, and
// ended ones that were waited for. Excludes `root` itself.
absl::Duration ProcessorTimeBelow(pid_t root);

class ProcessState {
 public:
  // Refers to this process for good, even if its id is reused later.
  explicit ProcessState(pid_t pid);
  ProcessState(ProcessState&& other) noexcept;
  ProcessState& operator=(ProcessState&& other) noexcept;
  ~ProcessState();

  // False also when the process is gone.
  bool Suspended() const;

 private:
  int fd_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_
