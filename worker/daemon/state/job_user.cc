#include "worker/daemon/state/job_user.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

// Buffer for the C library's entries, which are long for groups with many members.
constexpr size_t kEntryBytes = 1 << 20;
constexpr int kMostGroups = 65536;  // The kernel's NGROUPS_MAX.

struct Capability {
  int number;
  const char* name;
};

// Needed to become the user, to give it files, to read and remove them, and to kill its processes.
constexpr Capability kNeeded[] = {
    {CAP_SETUID, "CAP_SETUID"}, {CAP_SETGID, "CAP_SETGID"},
    {CAP_CHOWN, "CAP_CHOWN"},   {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
    {CAP_KILL, "CAP_KILL"},
};

absl::Status Wrong(const std::string& run_as, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--run-as ", run_as, ": ", why));
}

absl::Status FindUser(const std::string& run_as, const std::string& name, JobUser& user) {
  std::vector<char> buffer(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  int error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  uid_t number = 0;
  const bool is_number = absl::SimpleAtoi(name, &number);
  if (found == nullptr && is_number) {
    error = ::getpwuid_r(number, &entry, buffer.data(), buffer.size(), &found);
  }
  if (found != nullptr) {
    user.name = entry.pw_name;
    user.home = entry.pw_dir;
    user.ids.uid = entry.pw_uid;
    user.ids.gid = entry.pw_gid;
    return absl::OkStatus();
  }
  if (is_number) {
    user.name = name;
    user.home = "/";
    user.ids.uid = number;
    return absl::OkStatus();
  }
  return Wrong(run_as, absl::StrCat("there is no user ", name,
                                    error == 0 ? "" : absl::StrCat(" (", std::strerror(error), ")"),
                                    "; make one (useradd --system), or give another"));
}

absl::Status FindGroup(const std::string& run_as, const std::string& name, gid_t& gid) {
  std::vector<char> buffer(kEntryBytes);
  group entry{};
  group* found = nullptr;
  ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) {
    gid = entry.gr_gid;
    return absl::OkStatus();
  }
  if (absl::SimpleAtoi(name, &gid)) return absl::OkStatus();
  return Wrong(run_as, absl::StrCat("there is no group ", name,
                                    "; make one (groupadd --system), or give another"));
}

std::vector<gid_t> GroupsOf(const JobUser& user) {
  std::vector<gid_t> groups(kMostGroups);
  int count = kMostGroups;
  if (::getgrouplist(user.name.c_str(), user.ids.gid, groups.data(), &count) < 0) count = 0;
  groups.resize(static_cast<size_t>(count));
  return groups;
}

// Names of the needed capabilities that this process lacks.
std::vector<std::string> MissingCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  ::syscall(SYS_capget, &header, sets);
  std::vector<std::string> missing;
  for (const Capability& needed : kNeeded) {
    if ((sets[0].effective & (1U << needed.number)) == 0) missing.emplace_back(needed.name);
  }
  return missing;
}

}  // namespace

absl::StatusOr<JobUser> FindJobUser(const std::string& run_as) {
  JobUser user;
  if (run_as.empty()) {
    user.ids.uid = ::geteuid();
    user.ids.gid = ::getegid();
    user.name = absl::StrCat(user.ids.uid);
    return user;
  }
  const std::vector<std::string> parts = absl::StrSplit(run_as, ':');
  if (parts.size() > 2 || parts[0].empty() || (parts.size() == 2 && parts[1].empty())) {
    return Wrong(run_as, "is no user; write USER or USER:GROUP");
  }
  PACELINE_RETURN_IF_ERROR(FindUser(run_as, parts[0], user));
  if (parts.size() == 2) PACELINE_RETURN_IF_ERROR(FindGroup(run_as, parts[1], user.ids.gid));
  if (user.ids.uid == 0 || user.ids.gid == 0) {
    return Wrong(run_as,
                 "trainers do not run as root, nor in its group; write USER:GROUP of their own");
  }
  user.is_own = user.ids.uid == ::geteuid() && user.ids.gid == ::getegid();
  if (user.is_own) return user;
  user.ids.groups = GroupsOf(user);
  const std::vector<std::string> missing = MissingCapabilities();
  if (missing.empty()) return user;
  return Wrong(run_as, absl::StrCat("this process lacks ", absl::StrJoin(missing, ", "),
                                    " and cannot run trainers as another user; start it as root, "
                                    "or with these capabilities (systemd: AmbientCapabilities=)"));
}

std::vector<std::string> EnvironmentOf(const JobUser& user, std::vector<std::string> environment) {
  if (user.is_own) return environment;
  std::vector<std::string> own = {absl::StrCat("HOME=", user.home),
                                  absl::StrCat("USER=", user.name),
                                  absl::StrCat("LOGNAME=", user.name)};
  for (std::string& entry : environment) {
    const bool replaced = absl::StartsWith(entry, "HOME=") || absl::StartsWith(entry, "USER=") ||
                          absl::StartsWith(entry, "LOGNAME=");
    if (!replaced) own.push_back(std::move(entry));
  }
  return own;
}

absl::Status CheckEnters(const JobUser& user, const std::vector<std::string>& dirs) {
  if (user.is_own) return absl::OkStatus();
  absl::Status status;
  // A thread can switch user alone: ask the kernel as that user, since it knows best.
  std::thread([&] {
    if (const char* const failed = ActAsUser(user.ids)) {
      status = absl::FailedPreconditionError(
          absl::StrCat("cannot ", failed, " of --run-as ", user.name, ": ", std::strerror(errno)));
    }
    for (const std::string& dir : dirs) {
      if (!status.ok()) break;
      const int inside = ::open((dir + "/.").c_str(), O_PATH | O_CLOEXEC);
      if (inside >= 0) {
        ::close(inside);
        continue;
      }
      status = absl::FailedPreconditionError(
          absl::StrCat("user ", user.name, " of --run-as cannot enter ", dir, ": ",
                       std::strerror(errno), "; let others enter it and its parents (chmod o+x)"));
    }
  }).join();
  return status;
}

absl::Status GiveTo(const JobUser& user, const std::string& path) {
  if (user.is_own || ::lchown(path.c_str(), user.ids.uid, user.ids.gid) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot give ", path, " to ", user.name));
}

}  // namespace paceline
