#include "cli/testing/fake_errors.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

grpc::Status WithDetail(grpc::StatusCode code, const std::string& message,
                        const google::protobuf::Message& detail) {
  google::rpc::Status whole;
  whole.add_details()->PackFrom(detail);
  return grpc::Status(code, message, whole.SerializeAsString());
}

}  // namespace

grpc::Status Lost() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost"); }

grpc::Status Away(const std::string& node) {
  google::rpc::ErrorInfo info;
  info.set_reason("NODE_UNREACHABLE");
  return WithDetail(grpc::StatusCode::UNAVAILABLE, absl::StrCat("node ", node, " is not heard of"),
                    info);
}

grpc::Status Refused(const std::string& message, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  return WithDetail(grpc::StatusCode::FAILED_PRECONDITION, message, info);
}

grpc::Status NotFound(const std::string& kind, const std::string& name, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("paceline");
  (*info.mutable_metadata())[kind] = name;
  return WithDetail(grpc::StatusCode::NOT_FOUND,
                    absl::StrCat("there is no ", kind, " \"", name, "\""), info);
}

grpc::Status Invalid(const std::string& field, const std::string& description) {
  google::rpc::BadRequest request;
  google::rpc::BadRequest::FieldViolation& violation = *request.add_field_violations();
  violation.set_field(field);
  violation.set_description(description);
  return WithDetail(grpc::StatusCode::INVALID_ARGUMENT, "the spec cannot be", request);
}

}  // namespace paceline
