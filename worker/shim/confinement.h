// What a trainer is allowed to do: the user it runs as, and the kernel's limits on it.
//
// The daemon decides (worker/daemon/state/job_user.h) and passes it on the shim's command line; the
// shim's child applies it to itself before it becomes the trainer.
#ifndef WORKER_SHIM_CONFINEMENT_H_
#define WORKER_SHIM_CONFINEMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

// The kernel's ids of a user.
struct UserIds {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // Supplementary groups, with or without gid.
};

struct Confinement {
  // Unset: the ids of the process itself.
  std::optional<UserIds> user;
  // Soft and hard limits (setrlimit(2)); unset: as inherited.
  std::optional<uint64_t> limit_nofile;     // RLIMIT_NOFILE: open descriptors.
  std::optional<uint64_t> limit_core;       // RLIMIT_CORE: bytes of a core file.
  std::optional<uint64_t> limit_memory;     // RLIMIT_DATA: bytes of private, writable memory.
  std::optional<uint64_t> limit_processes;  // RLIMIT_NPROC: the user's processes and threads.
};

// Formats the confinement as command-line flags: pairs of flag and value.
std::vector<std::string> ConfinementFlags(const Confinement& confinement);

// Reads one of these pairs; ignores other flags. False when the value is impossible.
bool TakeConfinementFlag(absl::string_view flag, absl::string_view value, Confinement& confinement);

// Switches the calling thread for good to the user: real, effective and saved ids, and groups.
// Drops all capabilities unless the user is root. Returns null, or the name of the step that
// failed, with the reason in errno; earlier steps stay in effect. Async-signal-safe.
const char* BecomeUser(const UserIds& user);

// Makes the calling thread act on files as the user, and drops its capabilities. For a thread of a
// process shared with others: unlike after BecomeUser, the user's own processes cannot signal or
// trace it. Returns the same as BecomeUser.
const char* ActAsUser(const UserIds& user);

// Becomes the user, or, if none is set and this one is not root, drops its capabilities. Also gives
// up gaining privileges from programs (no_new_privs). Requires a process with one thread. Clears
// its parent-death signal (PR_SET_PDEATHSIG). Returns the same as BecomeUser. Async-signal-safe.
const char* Confine(const Confinement& confinement);

// Applies the limits. Call this last, since memory may run out under them. Raising a limit above
// the inherited hard one needs a privilege. Returns the same as BecomeUser. Async-signal-safe.
const char* TakeLimits(const Confinement& confinement);

}  // namespace paceline

#endif  // WORKER_SHIM_CONFINEMENT_H_
