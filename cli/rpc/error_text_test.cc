#include "cli/rpc/error_text.h"

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

template <typename Detail>
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message, const Detail& detail) {
  google::rpc::Status whole;
  whole.add_details()->PackFrom(detail);
  return grpc::Status(code, message, whole.SerializeAsString());
}

grpc::Status WithReason(grpc::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("paceline");
  return WithDetail(code, "no job \"x\x1b[2J\"", info);
}

TEST(ExitOfTest, CodesAreThoseOfTheDocumentation) {
  using Code = grpc::StatusCode;
  const auto exit = [](Code code) { return ExitOf(grpc::Status(code, "")); };
  EXPECT_EQ(ExitOf(grpc::Status::OK), kCliOk);
  EXPECT_EQ(exit(Code::INVALID_ARGUMENT), kCliUsage);
  EXPECT_EQ(exit(Code::NOT_FOUND), kCliNotFound);
  EXPECT_EQ(exit(Code::FAILED_PRECONDITION), kCliRefused);
  EXPECT_EQ(exit(Code::ALREADY_EXISTS), kCliRefused);
  EXPECT_EQ(exit(Code::RESOURCE_EXHAUSTED), kCliRefused);
  EXPECT_EQ(exit(Code::PERMISSION_DENIED), kCliPermission);
  EXPECT_EQ(exit(Code::UNAUTHENTICATED), kCliPermission);
  EXPECT_EQ(exit(Code::UNAVAILABLE), kCliUnavailable);
  EXPECT_EQ(exit(Code::DEADLINE_EXCEEDED), kCliTimeout);
  EXPECT_EQ(exit(Code::CANCELLED), kCliInterrupted);
  EXPECT_EQ(exit(Code::INTERNAL), kCliFailed);
}

TEST(ErrorTextTest, SaysWhatAndWhatToDo) {
  EXPECT_EQ(ErrorText(WithReason(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND"), "h:1"),
            "error: no job \"x\\x1b[2J\"\n"
            "  `paceline job list` shows the jobs that there are\n");
}

TEST(ErrorTextTest, NamesEveryFieldThatTheServerRefused) {
  google::rpc::BadRequest request;
  auto* violation = request.add_field_violations();
  violation->set_field("ranks");
  violation->set_description("is 9999; allowed is 1 to 4096");
  const grpc::Status status = WithDetail(grpc::StatusCode::INVALID_ARGUMENT,
                                         "the spec cannot be:\n  ranks: is 9999; allowed", request);
  EXPECT_EQ(ErrorText(status, "h:1"),
            "error: the spec cannot be:\n  ranks: is 9999; allowed is 1 to 4096\n");
}

TEST(ErrorTextTest, UnreachableServerIsNamed) {
  const std::string text = ErrorText(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"), "h:1");
  EXPECT_THAT(text, HasSubstr("the controller at h:1 does not answer (refused)"));
  EXPECT_THAT(text, HasSubstr("paceline dev up"));
}

TEST(ErrorTextTest, UnreachableNodeIsNotTheServersFault) {
  const std::string text =
      ErrorText(WithReason(grpc::StatusCode::UNAVAILABLE, "NODE_UNREACHABLE"), "h:1");
  EXPECT_THAT(text, testing::Not(HasSubstr("controller")));
}

TEST(ErrorTextTest, DetailsThatCannotBeReadAreIgnored) {
  const grpc::Status status(grpc::StatusCode::NOT_FOUND, "gone", "\xff\xff");
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_EQ(ErrorText(status, "h:1"), "error: gone\n");
}

}  // namespace
}  // namespace paceline
