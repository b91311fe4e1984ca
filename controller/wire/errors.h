// Errors as clients see them: a code, a line for people, and for programs a google.rpc.ErrorInfo
// with domain "paceline" and a reason in UPPER_SNAKE.
#ifndef CONTROLLER_WIRE_ERRORS_H_
#define CONTROLLER_WIRE_ERRORS_H_

#include <grpcpp/support/status.h>

#include <map>
#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

// At most 2 KiB of `message` are sent, and 256 bytes of each value of `metadata`.
grpc::Status MakeError(grpc::StatusCode code, const std::string& reason, const std::string& message,
                       const std::map<std::string, std::string>& metadata = {});

// INVALID_ARGUMENT with a google.rpc.BadRequest that names the fields. `what` begins the message:
// "the ladder does not fit". If there are many problems, the first are listed, and the rest
// counted.
grpc::Status FieldsError(const std::string& reason, const std::string& what,
                         const std::vector<SpecProblem>& problems);

// The same, with reason SPEC_INVALID.
grpc::Status SpecError(const std::vector<SpecProblem>& problems);

// INVALID_ARGUMENT, RESOURCE_EXHAUSTED or FAILED_PRECONDITION, by the refusal's kind.
grpc::Status MakeError(const Refusal& refusal);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_ERRORS_H_
