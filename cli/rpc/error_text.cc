#include "cli/rpc/error_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text/sanitize.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

struct Advice {
  const char* reason;
  const char* text;
};
constexpr Advice kAdvice[] = {
    {"JOB_NOT_FOUND", "`paceline job list` shows the jobs that there are"},
    {"AMBIGUOUS_JOB", "give more of the id; `paceline job list` shows it"},
    {"JOB_CANNOT_FIT", "`paceline node list` shows what each node holds"},
    {"JOB_NOT_ENDED", "`paceline job cancel --save JOB` ends it with a checkpoint"},
    {"CHECKPOINT_NOT_FOUND", "`paceline checkpoint list` shows those that there are"},
    {"NODE_NOT_FOUND", "`paceline node list` shows the nodes that there are"},
    {"NODE_UNREACHABLE",
     "logs and checks are there again when the node is; `paceline node list` shows the nodes"},
    {"NOT_LEADER", "name all controllers, with commas between them: in the context, or --server"},
    {"NO_SUBSTITUTE", "`paceline node drain --dry-run --mode MODE` tells what each mode would do"},
    {"BRAKE", "`paceline automation resume` lets the automation act again"},
    {"REQUEST_ID_REUSED", "a --request-id stands for one request; leave it out or take a new one"},
};

template <typename Detail>
Detail DetailOf(const grpc::Status& status) {
  google::rpc::Status whole;
  Detail detail;
  if (!whole.ParseFromString(status.error_details())) return detail;
  for (const auto& any : whole.details()) {
    if (any.Is<Detail>() && any.UnpackTo(&detail)) return detail;
  }
  return detail;
}

std::string WhatText(const grpc::Status& status, absl::string_view server) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && ErrorReason(status).empty()) {
    return absl::StrCat("the controller at ", server, " does not answer (", status.error_message(),
                        ")");
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::StrCat("the controller at ", server, " did not answer in time");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("the server at ", server, " does not know this request");
  }
  const std::string& message = status.error_message();
  if (message.empty()) return "the request failed";
  // The other lines of the message are the field violations, which are listed below it.
  const auto request = DetailOf<google::rpc::BadRequest>(status);
  return request.field_violations().empty() ? message : message.substr(0, message.find('\n'));
}

std::string AdviceOf(const grpc::Status& status) {
  const std::string reason = ErrorReason(status);
  for (const Advice& advice : kAdvice) {
    if (reason == advice.reason) return advice.text;
  }
  if (!reason.empty()) return "";
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return "is it running there? --server, --context or $PACELINE_SERVER names another; "
             "`paceline dev up` starts a cluster on this machine";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "try again, or give it more time with --timeout";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "is it a Paceline controller, and as new as this program? `paceline version` tells";
    default:
      return "";
  }
}

}  // namespace

std::string ErrorReason(const grpc::Status& status) {
  return DetailOf<google::rpc::ErrorInfo>(status).reason();
}

std::string ErrorMetadata(const grpc::Status& status, const std::string& key) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  const auto found = info.metadata().find(key);
  return found == info.metadata().end() ? "" : found->second;
}

std::vector<FieldViolation> FieldViolations(const grpc::Status& status) {
  std::vector<FieldViolation> violations;
  const auto request = DetailOf<google::rpc::BadRequest>(status);
  for (const auto& violation : request.field_violations()) {
    violations.push_back({violation.field(), violation.description()});
  }
  return violations;
}

CliExit ExitOf(const grpc::Status& status) {
  // Abseil and gRPC use the same numbers for codes.
  return ExitOf(absl::Status(static_cast<absl::StatusCode>(status.error_code()), ""));
}

CliExit ExitOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kCliOk;
    case absl::StatusCode::kInvalidArgument:
      return kCliUsage;
    case absl::StatusCode::kNotFound:
      return kCliNotFound;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted:
      return kCliRefused;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kCliPermission;
    case absl::StatusCode::kUnavailable:
      return kCliUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return kCliTimeout;
    case absl::StatusCode::kCancelled:
      return kCliInterrupted;
    default:
      return kCliFailed;
  }
}

std::string ErrorText(const grpc::Status& status, absl::string_view server,
                      absl::string_view meant) {
  std::string text = absl::StrCat("error: ", SanitizeLine(WhatText(status, server)), "\n");
  for (const FieldViolation& violation : FieldViolations(status)) {
    absl::StrAppend(&text, "  ", SanitizeLine(violation.field), ": ",
                    SanitizeLine(violation.description), "\n");
  }
  if (!meant.empty()) absl::StrAppend(&text, "  did you mean \"", SanitizeLine(meant), "\"?\n");
  const std::string advice = AdviceOf(status);
  if (!advice.empty()) absl::StrAppend(&text, "  ", advice, "\n");
  return text;
}

std::string ErrorText(const absl::Status& status) {
  return absl::StrCat("error: ", SanitizeLine(status.message()), "\n");
}

}  // namespace paceline
