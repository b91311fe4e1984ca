// Who may call which method: the one table of all methods that the controller serves, those of
// gRPC's own services included. A method of the protos without a row, and a row of what is no
// method, fail the build; what has no row is served to nobody.
#ifndef CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_
#define CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/identity/principal.h"

namespace paceline {

enum class Scope {
  kAll,   // Any object.
  kOwn,   // A submitter's own jobs; for callers who see all jobs, all of them (find_job.h).
  kSelf,  // The caller itself, whatever its role; it must be known.
};

struct MethodRule {
  absl::string_view method;  // "/paceline.v1.JobService/Get".
  Role role;                 // Role that is required; kNone: anybody, even without an identity.
  Scope scope = Scope::kAll;
};

absl::Span<const MethodRule> MethodRules();

// Null: the method has no rule.
const MethodRule* FindRule(absl::string_view method);

// Whether a caller with this role may call the method.
bool MayCall(Role role, const MethodRule& rule);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_
