// Errors as a controller answers them, with their details.
#ifndef CLI_TESTING_FAKE_ERRORS_H_
#define CLI_TESTING_FAKE_ERRORS_H_

#include <grpcpp/support/status.h>

#include <string>

namespace paceline {

// As of a connection that broke.
grpc::Status Lost();

// UNAVAILABLE: the controller has no word from the node.
grpc::Status Away(const std::string& node);

// FAILED_PRECONDITION for this reason.
grpc::Status Refused(const std::string& message, const std::string& reason);

// NOT_FOUND for this reason. `kind` and `name`: what there is not, such as "job".
grpc::Status NotFound(const std::string& kind, const std::string& name, const std::string& reason);

// INVALID_ARGUMENT: a field of the spec, and what is wrong with it.
grpc::Status Invalid(const std::string& field, const std::string& description);

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_ERRORS_H_
