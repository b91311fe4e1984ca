#include "worker/shim/confinement.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paceline {
namespace {

struct Limit {
  const char* flag;
  const char* step;  // For error messages.
  int resource;
  std::optional<uint64_t> Confinement::*value;
};

constexpr Limit kLimits[] = {
    {"--limit-nofile", "limit its open files", RLIMIT_NOFILE, &Confinement::limit_nofile},
    {"--limit-core", "limit its core file", RLIMIT_CORE, &Confinement::limit_core},
    {"--limit-memory", "limit its memory", RLIMIT_DATA, &Confinement::limit_memory},
    {"--limit-processes", "limit its processes", RLIMIT_NPROC, &Confinement::limit_processes},
};

// Affects this thread only: the C library's function would change all threads, or none after vfork.
bool DropCapabilities() {
  // Kernels without ambient capabilities return EINVAL: there is nothing to drop.
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) {
    return false;
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

}  // namespace

std::vector<std::string> ConfinementFlags(const Confinement& confinement) {
  std::vector<std::string> flags;
  if (confinement.user.has_value()) {
    flags = {"--uid",    absl::StrCat(confinement.user->uid),
             "--gid",    absl::StrCat(confinement.user->gid),
             "--groups", absl::StrJoin(confinement.user->groups, ",")};
  }
  for (const Limit& limit : kLimits) {
    const std::optional<uint64_t>& value = confinement.*limit.value;
    if (!value.has_value()) continue;
    flags.emplace_back(limit.flag);
    flags.push_back(absl::StrCat(*value));
  }
  return flags;
}

bool TakeConfinementFlag(absl::string_view flag, absl::string_view value,
                         Confinement& confinement) {
  for (const Limit& limit : kLimits) {
    if (flag == limit.flag) return absl::SimpleAtoi(value, &(confinement.*limit.value).emplace());
  }
  if (flag != "--uid" && flag != "--gid" && flag != "--groups") return true;
  if (!confinement.user.has_value()) confinement.user.emplace();
  if (flag == "--uid") return absl::SimpleAtoi(value, &confinement.user->uid);
  if (flag == "--gid") return absl::SimpleAtoi(value, &confinement.user->gid);
  for (const absl::string_view group : absl::StrSplit(value, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(group, &confinement.user->groups.emplace_back())) return false;
  }
  return true;
}

const char* BecomeUser(const UserIds& user) {
  // Groups first: without privileges they can no longer be changed.
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0) {
    return "take the user's groups";
  }
  if (::syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0) return "take the group";
  if (::syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0) return "take the user";
  if (user.uid != 0 && !DropCapabilities()) return "drop its capabilities";
  return nullptr;
}

const char* ActAsUser(const UserIds& user) {
  if (::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) != 0) {
    return "take the user's groups";
  }
  // These calls report no error: they return the old id, and an impossible id changes nothing.
  ::syscall(SYS_setfsgid, user.gid);
  ::syscall(SYS_setfsuid, user.uid);
  errno = EPERM;
  if (::syscall(SYS_setfsgid, -1) != static_cast<long>(user.gid)) return "take the group";
  if (::syscall(SYS_setfsuid, -1) != static_cast<long>(user.uid)) return "take the user";
  return DropCapabilities() ? nullptr : "drop its capabilities";
}

const char* Confine(const Confinement& confinement) {
  if (confinement.user.has_value()) {
    if (const char* const failed = BecomeUser(*confinement.user)) return failed;
  } else if (::geteuid() != 0 && !DropCapabilities()) {
    return "drop its capabilities";
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "set no_new_privs";
  return nullptr;
}

const char* TakeLimits(const Confinement& confinement) {
  for (const Limit& limit : kLimits) {
    const std::optional<uint64_t>& value = confinement.*limit.value;
    const rlimit both = {value.value_or(0), value.value_or(0)};
    if (value.has_value() && ::setrlimit(limit.resource, &both) != 0) return limit.step;
  }
  return nullptr;
}

}  // namespace paceline
