// Writes down where the threads of a process are: what the kernel reports of each, and their frames
// from the tool eu-stack (Debian's elfutils), if it is installed.
#ifndef WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_
#define WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/shim/confinement.h"

namespace paceline {

// Returns, for each thread, name, state, wait channel, system call and, if this user may read it,
// kernel stack (proc(5)). Bounded in size.
std::string KernelStacks(pid_t pid);

// Writes both parts to `path`, which appears whole. The tool reads memory and programs that the
// process controls, so it runs without privileges, within limits, and as `user`, the process's
// user, if set. Blocks for up to five seconds, or until `stop` becomes true. The process may be
// suspended; otherwise it stands still while its frames are read. The file says what could not be
// found out. Fails when the file cannot be written.
absl::Status SaveStacks(pid_t pid, const std::optional<UserIds>& user, const std::string& path,
                        const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_THREAD_STACKS_H_
