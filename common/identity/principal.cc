#include "common/identity/principal.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

constexpr absl::string_view kScheme = "paceline://";
constexpr size_t kMaxName = 63;

// In the order of Role.
constexpr absl::string_view kRoleNames[] = {"none",  "viewer", "submitter", "operator",
                                            "admin", "worker", "controller"};

bool IsUser(Role role) { return role >= Role::kViewer && role <= Role::kAdmin; }

}  // namespace

bool IsPrincipalName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  for (size_t i = 1; i < std::size(kRoleNames); ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name,
                   "\" is no role: roles are viewer, submitter, operator, admin, worker and "
                   "controller"));
}

std::string PrincipalText(const Principal& principal) {
  if (principal.role == Role::kNone) return "nobody";
  return absl::StrCat(RoleName(principal.role), " ", principal.name);
}

std::string PrincipalUri(const Principal& principal) {
  return absl::StrCat(kScheme, RoleName(principal.role), "/", principal.name);
}

absl::StatusOr<Principal> ParsePrincipalUri(absl::string_view uri) {
  absl::string_view rest = uri;
  const bool has_scheme = absl::ConsumePrefix(&rest, kScheme);
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (!has_scheme || parts.size() != 2 || !IsPrincipalName(parts[1])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", uri, "\" names nobody: it must be paceline://ROLE/NAME, with a name of 1 to ",
        kMaxName, " of [A-Za-z0-9._-]"));
  }
  const absl::StatusOr<Role> role = ParseRole(parts[0]);
  if (!role.ok()) return role.status();
  return Principal{*role, std::string(parts[1])};
}

bool Includes(Role have, Role need) {
  if (need == Role::kNone || have == need) return true;
  return IsUser(have) && IsUser(need) && have > need;
}

bool SeesAllJobs(Role role) { return role != Role::kSubmitter && Includes(role, Role::kViewer); }

absl::Status CheckReader(const Principal& principal) {
  if (SeesAllJobs(principal.role) || principal.role == Role::kController) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(PrincipalUri(principal),
                   " may not read this: it tells of everybody's jobs, for viewers, "
                   "operators and admins"));
}

}  // namespace paceline
