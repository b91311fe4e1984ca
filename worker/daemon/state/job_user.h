// The user that the node's trainers run as, and what of the node's files has to be theirs.
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
  std::string name;  // A number when it has none.
  std::string home;
  UserIds ids;
  bool is_own = true;  // That of this process: nobody becomes anybody.

  // For Confinement; nothing when is_own.
  std::optional<UserIds> switched() const {
    return is_own ? std::nullopt : std::optional<UserIds>(ids);
  }
};

// `run_as`: "USER" or "USER:GROUP", names or numbers, with the user's supplementary groups; empty:
// the user of this process. InvalidArgument, with what to do: there is no such user or group, it is
// root, or this process may not start processes of others.
absl::StatusOr<JobUser> FindJobUser(const std::string& run_as);

// `environment` ("KEY=value") with the user's HOME, USER and LOGNAME; as it is when is_own.
std::vector<std::string> EnvironmentOf(const JobUser& user, std::vector<std::string> environment);

// FailedPrecondition, with what to do, when the user cannot enter one of `dirs`, which exist.
absl::Status CheckEnters(const JobUser& user, const std::vector<std::string>& dirs);

// Gives a file or folder to the user; does nothing when is_own. A link itself is given, not what
// it leads to.
absl::Status GiveTo(const JobUser& user, const std::string& path);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_JOB_USER_H_
