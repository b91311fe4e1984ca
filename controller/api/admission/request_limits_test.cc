#include "controller/api/admission/request_limits.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/identity.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Expects INVALID_ARGUMENT, REQUEST_INVALID, with the field's name.
void ExpectRefused(const google::protobuf::Message& request, const std::string& field) {
  const grpc::Status refused = CheckRequestLimits(request);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("\n  " + field + ": has "));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(refused.error_details()));
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  EXPECT_EQ(info.reason(), "REQUEST_INVALID");
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), field);
}

TEST(RequestLimitsTest, TextsAreBounded) {
  v1::CancelJobRequest request;
  request.set_reason(std::string(kMaxRequestText, 'x'));
  EXPECT_TRUE(CheckRequestLimits(request).ok());
  request.set_reason(std::string(kMaxRequestText + 1, 'x'));
  ExpectRefused(request, "reason");
}

TEST(RequestLimitsTest, ListsAreBounded) {
  v1::ProfileJobRequest request;
  for (int i = 0; i < kMaxRequestItems; ++i) request.add_ranks(i);
  EXPECT_TRUE(CheckRequestLimits(request).ok());
  request.add_ranks(0);
  ExpectRefused(request, "ranks");
}

// Fields of newer clients, which this version does not know, would be kept along with the others.
TEST(RequestLimitsTest, WhatIsNotKnownIsBoundedByTheWhole) {
  v1::ChangeLadderRequest request;
  v1::LadderLevel* level = request.add_ladder();
  google::protobuf::UnknownFieldSet* unknown = level->GetReflection()->MutableUnknownFields(level);
  unknown->AddLengthDelimited(1000, std::string(kMaxRequestBytes / 2, 'x'));
  EXPECT_TRUE(CheckRequestLimits(request).ok());
  unknown->AddLengthDelimited(1001, std::string(kMaxRequestBytes / 2, 'x'));
  ExpectRefused(request, "request");
}

TEST(RequestLimitsTest, ACertificateRequestHasRoomOfItsOwn) {
  v1::JoinRequest join;
  v1::RenewRequest renew;
  join.set_csr_pem(std::string(kMaxCsrBytes, 'x'));
  renew.set_csr_pem(std::string(kMaxCsrBytes, 'x'));
  EXPECT_TRUE(CheckRequestLimits(join).ok());
  EXPECT_TRUE(CheckRequestLimits(renew).ok());
  join.mutable_csr_pem()->push_back('x');
  renew.mutable_csr_pem()->push_back('x');
  ExpectRefused(join, "csr_pem");
  ExpectRefused(renew, "csr_pem");
}

TEST(RequestLimitsTest, ASpecIsLeftToItsOwnCheck) {
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_name(std::string(1 << 20, 'x'));
  EXPECT_TRUE(CheckRequestLimits(request).ok());
  request.set_request_id(std::string(kMaxRequestText + 1, 'x'));
  ExpectRefused(request, "request_id");
}

}  // namespace
}  // namespace paceline
