// What went wrong, where, and what to do about it, from the status of a call.
#ifndef CLI_RPC_ERROR_TEXT_H_
#define CLI_RPC_ERROR_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/exit_codes.h"
#include "grpcpp/support/status.h"

namespace paceline {

// A field of the request that the server refused.
struct FieldViolation {
  std::string field;
  std::string description;
};

// The reason of the status' google.rpc.ErrorInfo; empty when it has none.
std::string ErrorReason(const grpc::Status& status);

// What its google.rpc.ErrorInfo says of `key`; empty when it says nothing.
std::string ErrorMetadata(const grpc::Status& status, const std::string& key);

// Of its google.rpc.BadRequest.
std::vector<FieldViolation> FieldViolations(const grpc::Status& status);

CliExit ExitOf(const grpc::Status& status);
CliExit ExitOf(const absl::Status& status);

// Lines that begin with "error: "; neutralised. `server` is where the call went, `meant` the name
// that the user may have meant; empty: none.
std::string ErrorText(const grpc::Status& status, absl::string_view server,
                      absl::string_view meant = "");
std::string ErrorText(const absl::Status& status);

}  // namespace paceline

#endif  // CLI_RPC_ERROR_TEXT_H_
