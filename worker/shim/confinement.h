// What a trainer may do besides training: as whom it runs, within which limits of the kernel.
//
// The daemon decides (worker/daemon/state/job_user.h), the shim is told on its command line, and
// its child takes it upon itself before it becomes the trainer.
#ifndef WORKER_SHIM_CONFINEMENT_H_
#define WORKER_SHIM_CONFINEMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

// What the kernel knows of a user.
struct UserIds {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // The supplementary ones; with gid among them or not.
};

struct Confinement {
  // Unset: those of the process that confines itself.
  std::optional<UserIds> user;
  // Soft and hard limits (setrlimit(2)); unset: as inherited.
  std::optional<uint64_t> limit_nofile;     // RLIMIT_NOFILE: open descriptors.
  std::optional<uint64_t> limit_core;       // RLIMIT_CORE: bytes of a core file.
  std::optional<uint64_t> limit_memory;     // RLIMIT_DATA: bytes of private, writable memory.
  std::optional<uint64_t> limit_processes;  // RLIMIT_NPROC: the user's processes and threads.
};

// The command line that tells all of it: pairs of flag and value.
std::vector<std::string> ConfinementFlags(const Confinement& confinement);

// Takes one of these pairs; other flags are none of its business. False when the value is
// impossible.
bool TakeConfinementFlag(absl::string_view flag, absl::string_view value, Confinement& confinement);

// Becomes the user, for good, in the calling thread only: real, effective and saved ids, groups,
// and no capability is left unless the user is root. Null, or the step that failed, with the
// reason in errno; some steps may have been taken then. Async-signal-safe.
const char* BecomeUser(const UserIds& user);

// Opens, makes and removes files as the user, in the calling thread only, which has no capability
// any more. Unlike one that became the user, a thread of a process that others share: the user's
// own processes cannot signal or trace it. Result as of BecomeUser.
const char* ActAsUser(const UserIds& user);

// Becomes the user, or drops the capabilities of who is not root, and gives up ever getting
// privileges by a program that has more (no_new_privs). To be called in a process with one thread;
// its signal at the parent's death (PR_SET_PDEATHSIG) is lost. Result as of BecomeUser.
// Async-signal-safe.
const char* Confine(const Confinement& confinement);

// Takes the limits, the last of all, as with them there may be no more memory. A limit above the
// hard one that was inherited needs a privilege. Result as of BecomeUser. Async-signal-safe.
const char* TakeLimits(const Confinement& confinement);

}  // namespace paceline

#endif  // WORKER_SHIM_CONFINEMENT_H_
