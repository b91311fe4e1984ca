#include "controller/wire/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

// Size of trailers that a gRPC client accepts by default.
constexpr size_t kTrailers = 8192;

// Size of an error in trailers, where a newline takes three bytes and details are in base 64.
size_t WireBytes(const grpc::Status& status) {
  size_t bytes = status.error_details().size() * 4 / 3;
  for (const char c : status.error_message()) bytes += c == '\n' ? 3 : 1;
  return bytes;
}

TEST(ErrorsTest, WhatAnybodySentIsNotEchoedWithoutEnd) {
  const std::string much(1 << 20, 'x');
  const grpc::Status status =
      MakeError(grpc::StatusCode::NOT_FOUND, "NODE_NOT_FOUND", much, {{"node", much}});
  EXPECT_EQ(status.error_message().size(), 2048u);
  EXPECT_LT(WireBytes(status), kTrailers);
}

TEST(ErrorsTest, ManyProblemsAreToldInPart) {
  std::vector<SpecProblem> problems;
  for (int i = 0; i < 1000; ++i) {
    problems.push_back({absl::StrCat("chaos[", i, "].rank"), "is 7; allowed is 0 to 1"});
  }
  const grpc::Status status = SpecError(problems);
  EXPECT_LT(WireBytes(status), kTrailers);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::BadRequest bad;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  EXPECT_GT(bad.field_violations_size(), 10);
  EXPECT_THAT(
      status.error_message(),
      ::testing::EndsWith(absl::StrCat("\n  and ", 1000 - bad.field_violations_size(), " more")));
}

TEST(ErrorsTest, FewProblemsAreAllTold) {
  const grpc::Status status = SpecError({{"ranks", "is 0"}, {"steps", "is missing"}});
  EXPECT_EQ(status.error_message(),
            "the job cannot be run as it is:\n  ranks: is 0\n  steps: is missing");
}

}  // namespace
}  // namespace paceline
