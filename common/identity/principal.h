// The members of a cluster: a role and a name, taken from certificates or the file of user tokens.
//
//   paceline://operator/ann      a person or a program
//   paceline://worker/node-7     the worker daemon of node-7
//   paceline://controller/c1     a controller
//
// Pure; Abseil only.
#ifndef COMMON_IDENTITY_PRINCIPAL_H_
#define COMMON_IDENTITY_PRINCIPAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// kViewer to kAdmin are ordered: each includes the rights of those before it, except that a
// submitter only sees its own jobs. Daemons' roles are separate. kNone: unknown caller.
enum class Role { kNone, kViewer, kSubmitter, kOperator, kAdmin, kWorker, kController };

struct Principal {
  Role role = Role::kNone;
  std::string name;  // "ann", "node-7".

  friend bool operator==(const Principal& a, const Principal& b) {
    return a.role == b.role && a.name == b.name;
  }
};

// 1 to 63 characters of [A-Za-z0-9._-], like a node's name.
bool IsPrincipalName(absl::string_view name);

// Returns "viewer" etc.; "none" for kNone.
absl::string_view RoleName(Role role);
// InvalidArgument for anything but a role's name; "none" is not a role.
absl::StatusOr<Role> ParseRole(absl::string_view name);

// Returns "operator ann" etc.; "nobody" for kNone.
std::string PrincipalText(const Principal& principal);

// The URI, as in the examples above. Requires: the principal has a role and a name.
std::string PrincipalUri(const Principal& principal);
// InvalidArgument unless the text is exactly as PrincipalUri writes it.
absl::StatusOr<Principal> ParsePrincipalUri(absl::string_view uri);

// Whether role `have` includes the rights of `need`. Every role includes kNone.
bool Includes(Role have, Role need);

// Whether the role may see everybody's jobs. A submitter only sees its own.
bool SeesAllJobs(Role role);

// PermissionDenied unless the principal may read a daemon's page and metrics, which show
// everybody's jobs: controllers may, and whoever sees all jobs.
absl::Status CheckReader(const Principal& principal);

}  // namespace paceline

#endif  // COMMON_IDENTITY_PRINCIPAL_H_
