// Who takes part in a cluster: a role and a name, as certificates and the file of user tokens give
// them.
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

// kViewer to kAdmin are ordered, each may what those before it may, but that a submitter knows of
// its own jobs only. Daemons' roles stand beside them. kNone: nobody knows who it is.
enum class Role { kNone, kViewer, kSubmitter, kOperator, kAdmin, kWorker, kController };

struct Principal {
  Role role = Role::kNone;
  std::string name;  // "ann", "node-7".

  friend bool operator==(const Principal& a, const Principal& b) {
    return a.role == b.role && a.name == b.name;
  }
};

// 1 to 63 of [A-Za-z0-9._-], as a node's name has.
bool IsPrincipalName(absl::string_view name);

// "viewer"; of kNone "none".
absl::string_view RoleName(Role role);
// InvalidArgument for what is no role's name; "none" is no role.
absl::StatusOr<Role> ParseRole(absl::string_view name);

// "operator ann"; of kNone "nobody".
std::string PrincipalText(const Principal& principal);

// As above. Requires: the principal has a role and a name.
std::string PrincipalUri(const Principal& principal);
// InvalidArgument unless the text is exactly what PrincipalUri writes.
absl::StatusOr<Principal> ParsePrincipalUri(absl::string_view uri);

// Whether who has the one role may do what needs the other. Everybody may what needs none.
bool Includes(Role have, Role need);

// Whether it may know of everybody's jobs. A submitter knows of its own.
bool SeesAllJobs(Role role);

// Who may read a daemon's page and metrics, which tell of everybody's jobs: who sees them all, and
// controllers. PermissionDenied.
absl::Status CheckReader(const Principal& principal);

}  // namespace paceline

#endif  // COMMON_IDENTITY_PRINCIPAL_H_
