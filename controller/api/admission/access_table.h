// Who may call which method: the one table of all methods that the controller serves, those of
// gRPC's own services included. A method of the protos without a row fails the build; one that gets
// by that is served to nobody, and the controller does not start.
#ifndef CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_
#define CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/identity/principal.h"

namespace paceline {

enum class Scope {
  kAll,   // Whatever the method is about.
  kOwn,   // A submitter's own jobs; whoever sees all jobs, all (find_job.h).
  kSelf,  // The caller itself: of any role, but somebody.
};

struct MethodRule {
  absl::string_view method;  // "/paceline.v1.JobService/Get".
  Role role;                 // That is needed; kNone: anybody, without any identity.
  Scope scope = Scope::kAll;
};

absl::Span<const MethodRule> MethodRules();

// Null: there is none.
const MethodRule* FindRule(absl::string_view method);

// Whether who has this role may call the method.
bool MayCall(Role role, const MethodRule& rule);

// The methods of Paceline's services that are linked into this program, and of gRPC's own.
std::vector<std::string> ServedMethods();

// FailedPrecondition that names each method without a row, row without a method, and second row.
absl::Status CheckRules(absl::Span<const MethodRule> rules,
                        const std::vector<std::string>& methods);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_ACCESS_TABLE_H_
