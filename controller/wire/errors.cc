#include "controller/wire/errors.h"

#include "absl/strings/str_cat.h"
#include "common/core/utf8_prefix.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

// An error travels in HTTP/2 trailers, of which clients accept 8 KiB. They contain its text twice,
// and the text may quote input of any length.
constexpr size_t kMaxMessage = 2048;
constexpr size_t kMaxMetadata = 256;
// Limit for the lines about fields, which trailers contain three times.
constexpr size_t kMaxFieldLines = 1400;

google::rpc::Status NewStatus(grpc::StatusCode code, const std::string& reason,
                              const std::string& message,
                              const std::map<std::string, std::string>& metadata) {
  google::rpc::ErrorInfo info;
  info.set_domain("paceline");
  info.set_reason(reason);
  for (const auto& [key, value] : metadata) {
    (*info.mutable_metadata())[key] = std::string(Utf8Prefix(value, kMaxMetadata));
  }
  google::rpc::Status status;
  status.set_code(code);
  status.set_message(std::string(Utf8Prefix(message, kMaxMessage)));
  status.add_details()->PackFrom(info);
  return status;
}

grpc::Status ToGrpc(const google::rpc::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message(),
                      status.SerializeAsString());
}

grpc::StatusCode CodeOf(Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::kArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Refusal::Kind::kLimit:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Refusal::Kind::kState:
      break;
  }
  return grpc::StatusCode::FAILED_PRECONDITION;
}

}  // namespace

grpc::Status MakeError(grpc::StatusCode code, const std::string& reason, const std::string& message,
                       const std::map<std::string, std::string>& metadata) {
  return ToGrpc(NewStatus(code, reason, message, metadata));
}

grpc::Status FieldsError(const std::string& reason, const std::string& what,
                         const std::vector<SpecProblem>& problems) {
  google::rpc::BadRequest bad;
  std::string lines;
  size_t reported = 0;
  for (const SpecProblem& problem : problems) {
    const size_t bytes = problem.field.size() + problem.message.size();
    if (reported > 0 && lines.size() + bytes > kMaxFieldLines) break;
    ++reported;
    auto* violation = bad.add_field_violations();
    violation->set_field(problem.field);
    violation->set_description(problem.message);
    absl::StrAppend(&lines, "\n  ", problem.field, ": ", problem.message);
  }
  if (reported < problems.size()) {
    absl::StrAppend(&lines, "\n  and ", problems.size() - reported, " more");
  }
  google::rpc::Status status =
      NewStatus(grpc::StatusCode::INVALID_ARGUMENT, reason, absl::StrCat(what, ":", lines), {});
  status.add_details()->PackFrom(bad);
  return ToGrpc(status);
}

grpc::Status SpecError(const std::vector<SpecProblem>& problems) {
  return FieldsError("SPEC_INVALID", "the job cannot be run as it is", problems);
}

grpc::Status MakeError(const Refusal& refusal) {
  return MakeError(CodeOf(refusal.kind), refusal.reason, refusal.message);
}

}  // namespace paceline
