// Errors as a controller returns them, with details.
#ifndef CLI_TESTING_FAKE_ERRORS_H_
#define CLI_TESTING_FAKE_ERRORS_H_

#include <grpcpp/support/status.h>

#include <string>

namespace paceline {

// The error of a broken connection.
grpc::Status Lost();

// UNAVAILABLE: the controller does not hear from the node.
grpc::Status Away(const std::string& node);

// FAILED_PRECONDITION with this reason.
grpc::Status Refused(const std::string& message, const std::string& reason);

// NOT_FOUND with this reason. `kind` and `name`: what does not exist, such as "job".
grpc::Status NotFound(const std::string& kind, const std::string& name, const std::string& reason);

// INVALID_ARGUMENT with a field of the spec, and what is wrong with it.
grpc::Status Invalid(const std::string& field, const std::string& description);

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_ERRORS_H_
