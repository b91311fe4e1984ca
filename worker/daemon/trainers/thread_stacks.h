// Where the threads of a process are, as text: what the kernel tells of each, and their frames as
// the tool eu-stack (Debian's elfutils) finds them, if it is installed.
#ifndef WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_
#define WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/shim/confinement.h"

namespace paceline {

// Of each thread its name, state, wait channel, system call and, if this user may read it, the
// kernel's stack (proc(5)). Bounded in size.
std::string KernelStacks(pid_t pid);

// Writes both to `path`; the file appears whole. The tool reads what the process has in its memory,
// and names as its programs: it runs as `user`, the process's, when that is another than this one,
// without any privilege, and within limits. Blocks for up to five seconds, less when `stop`
// becomes true. The process may be suspended; else it stands still while its frames are read. What
// could not be found out is told in the file; fails when that cannot be written.
absl::Status SaveStacks(pid_t pid, const std::optional<UserIds>& user, const std::string& path,
                        const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_
