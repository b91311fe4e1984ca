// The user that the node's trainers run as, and how it gets access to the node's files.
#ifndef WORKER_DAEMON_STATE_JOB_USER_H_
#define WORKER_DAEMON_STATE_JOB_USER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/shim/confinement.h"

namespace paceline {

struct JobUser {
  std::string name;  // The number if it has no name.
  std::string home;
  UserIds ids;
  bool is_own = true;  // Same user as this process: no switch is needed.

  // The ids for Confinement; nothing when is_own.
  std::optional<UserIds> switched() const {
    return is_own ? std::nullopt : std::optional<UserIds>(ids);
  }
};

// `run_as` is "USER" or "USER:GROUP", by name or number, with the user's supplementary groups;
// empty means this process's user. InvalidArgument, with advice: the user or group does not exist,
// the user is root, or this process may not start processes of other users.
absl::StatusOr<JobUser> FindJobUser(const std::string& run_as);

// `environment` ("KEY=value") with the user's HOME, USER and LOGNAME; unchanged when is_own.
std::vector<std::string> EnvironmentOf(const JobUser& user, std::vector<std::string> environment);

// FailedPrecondition, with advice, when the user cannot enter one of `dirs`, which must exist.
absl::Status CheckEnters(const JobUser& user, const std::vector<std::string>& dirs);

// Makes the user own a file or folder; does nothing when is_own. Changes a link itself, not its
// target.
absl::Status GiveTo(const JobUser& user, const std::string& path);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_JOB_USER_H_
