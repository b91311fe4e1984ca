// Describes the error of a call: what went wrong, where, and what to do about it.
#ifndef CLI_RPC_ERROR_TEXT_H_
#define CLI_RPC_ERROR_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/exit_codes.h"
#include "grpcpp/support/status.h"

namespace paceline {

// A field of the request that the server rejected.
struct FieldViolation {
  std::string field;
  std::string description;
};

// Reason in the status's google.rpc.ErrorInfo; empty if it has none.
std::string ErrorReason(const grpc::Status& status);

// Value of `key` in the status's google.rpc.ErrorInfo; empty if it has none.
std::string ErrorMetadata(const grpc::Status& status, const std::string& key);

// Violations in the status's google.rpc.BadRequest.
std::vector<FieldViolation> FieldViolations(const grpc::Status& status);

CliExit ExitOf(const grpc::Status& status);
CliExit ExitOf(const absl::Status& status);

// Lines that begin with "error: ", safe for a terminal. `server`: where the call went. `meant`: the
// name that the user may have meant; empty: none.
std::string ErrorText(const grpc::Status& status, absl::string_view server,
                      absl::string_view meant = "");
std::string ErrorText(const absl::Status& status);

}  // namespace paceline

#endif  // CLI_RPC_ERROR_TEXT_H_
