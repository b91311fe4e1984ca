// Errors as clients see them: a code, a line for people, and for programs a
// google.rpc.ErrorInfo with domain "paceline" and a reason in UPPER_SNAKE.
#ifndef CONTROLLER_WIRE_ERRORS_H_
#define CONTROLLER_WIRE_ERRORS_H_

#include <grpcpp/support/status.h>

#include <map>
#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// Of a message at most 2 KiB are sent, of a value of `metadata` 256 bytes.
grpc::Status MakeError(grpc::StatusCode code, const std::string& reason, const std::string& message,
                       const std::map<std::string, std::string>& metadata = {});

// INVALID_ARGUMENT with a google.rpc.BadRequest that names every field. `what` is the first
// line's beginning: "the ladder does not fit". Of many problems the first are told, and how many
// there are more.
grpc::Status FieldsError(const std::string& reason, const std::string& what,
                         const std::vector<SpecProblem>& problems);

// The same, reason SPEC_INVALID.
grpc::Status SpecError(const std::vector<SpecProblem>& problems);

// INVALID_ARGUMENT or FAILED_PRECONDITION.
grpc::Status MakeError(const Refusal& refusal);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_ERRORS_H_
