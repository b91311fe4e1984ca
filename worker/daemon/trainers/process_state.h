// What /proc tells of a process: whether it is stopped, by SIGSTOP or by a debugger, so that it
// lives and does nothing; who has started it; what it and those that it has started have used.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_
#define WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// The state letter in the text of /proc/<pid>/stat (proc(5)); '\0' when there is none.
char StateLetter(absl::string_view stat);

// The parent's id in that text; 0 when there is none.
pid_t ParentIn(absl::string_view stat);

// The parent of a process at this moment; 0 when the process is gone.
pid_t ParentOf(pid_t pid);

// Whether `pid` is a process that `ancestor` has started, or one that such a one has started, at
// most 32 times removed.
bool DescendsFrom(pid_t pid, pid_t ancestor);

// Processor time of all that descends from `root`, in the kernel's ticks: of those that live, and
// of those that have ended and were waited for. Not `root`'s own.
absl::Duration ProcessorTimeBelow(pid_t root);

class ProcessState {
 public:
  // Stays with this process, whoever gets its id later.
  explicit ProcessState(pid_t pid);
  ProcessState(ProcessState&& other) noexcept;
  ProcessState& operator=(ProcessState&& other) noexcept;
  ~ProcessState();

  // False, too, when the process is gone.
  bool Suspended() const;

 private:
  int fd_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_PROCESS_STATE_H_
