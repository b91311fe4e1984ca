#include "worker/trainer/object_store/core/store_answer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

using Verdict = Judgement::Verdict;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

StoreRequest S3Request() {
  StoreRequest request;
  request.url = "s3://corpora/c4";
  request.with_credentials = true;
  request.region = "us-east-1";
  return request;
}

ObjectVersion Version() { return {1000, "\"v1\"", ""}; }

StoreAnswer Good() {
  StoreAnswer answer;
  answer.status = 206;
  answer.received = 100;
  answer.etag = "\"v1\"";
  answer.content_range = "bytes 200-299/1000";
  return answer;
}

StoreAnswer Refused(int status, const std::string& code) {
  StoreAnswer answer;
  answer.status = status;
  answer.error_body = "<?xml?><Error><Code>" + code + "</Code><Message>key AKIA</Message></Error>";
  answer.date = kNow;
  return answer;
}

Judgement Judge(const StoreAnswer& answer, const StoreRequest& request = S3Request()) {
  const ObjectVersion version = Version();
  return JudgeAnswer(request, answer, 200, 100, &version, kNow);
}

void ExpectStatus(const Judgement& judgement, Verdict verdict, absl::StatusCode code,
                  const std::string& text) {
  EXPECT_EQ(judgement.verdict, verdict) << judgement.status;
  EXPECT_EQ(judgement.status.code(), code) << judgement.status;
  EXPECT_TRUE(absl::StrContains(judgement.status.message(), "s3://corpora/c4")) << judgement.status;
  EXPECT_TRUE(absl::StrContains(judgement.status.message(), text)) << judgement.status;
  EXPECT_FALSE(absl::StrContains(judgement.status.message(), "AKIA")) << judgement.status;
}

TEST(StoreAnswerTest, TakesTheBytesThatWereAskedFor) {
  EXPECT_EQ(Judge(Good()).verdict, Verdict::kGood);
  EXPECT_TRUE(Judge(Good()).status.ok());
}

TEST(StoreAnswerTest, AnOpeningTakesFewerBytesOfAShortObject) {
  StoreAnswer answer = Good();
  answer.received = 10;
  answer.content_range = "bytes 0-9/10";
  EXPECT_EQ(JudgeAnswer(S3Request(), answer, 0, 64, nullptr, kNow).verdict, Verdict::kGood);
  answer.etag = "";
  ExpectStatus(JudgeAnswer(S3Request(), answer, 0, 64, nullptr, kNow), Verdict::kFail,
               absl::StatusCode::kFailedPrecondition, "neither ETag nor Last-Modified");
}

TEST(StoreAnswerTest, AnotherVersionIsRefused) {
  StoreAnswer tag = Good();
  tag.etag = "\"v2\"";
  StoreAnswer size = Good();
  size.content_range = "bytes 200-299/1001";
  for (const StoreAnswer& answer : {tag, size, Refused(412, "PreconditionFailed")}) {
    ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kDataLoss, "has changed");
  }
}

TEST(StoreAnswerTest, OtherBytesThanWereAskedForAreAskedForAgain) {
  StoreAnswer short_one = Good();
  short_one.received = 99;
  StoreAnswer shifted = Good();
  shifted.content_range = "bytes 201-300/1000";
  for (const StoreAnswer& answer : {short_one, shifted}) {
    ExpectStatus(Judge(answer), Verdict::kRetry, absl::StatusCode::kUnavailable,
                 "bytes 200-299/1000");
  }
}

TEST(StoreAnswerTest, WhatMayPassIsTriedAgain) {
  for (const int status : {408, 429, 500, 502, 503, 504, 507, 520, 599}) {
    ExpectStatus(Judge(Refused(status, "SlowDown")), Verdict::kRetry,
                 absl::StatusCode::kUnavailable, "SlowDown");
  }
  for (const int status : {501, 505}) {
    ExpectStatus(Judge(Refused(status, "NotImplemented")), Verdict::kFail,
                 absl::StatusCode::kFailedPrecondition, "NotImplemented");
  }
  StoreAnswer cut;
  cut.problem = "Transferred a partial file";
  cut.may_pass = true;
  ExpectStatus(Judge(cut), Verdict::kRetry, absl::StatusCode::kUnavailable, "partial file");
  cut.may_pass = false;
  ExpectStatus(Judge(cut), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "partial file");
}

TEST(StoreAnswerTest, SaysWhatToDoAboutARefusal) {
  ExpectStatus(Judge(Refused(403, "AccessDenied")), Verdict::kRetryWithCredentials,
               absl::StatusCode::kPermissionDenied, "right to read objects");
  ExpectStatus(Judge(Refused(403, "InvalidAccessKeyId")), Verdict::kRetryWithCredentials,
               absl::StatusCode::kPermissionDenied, "does not know the node's key");
  ExpectStatus(Judge(Refused(400, "ExpiredToken")), Verdict::kRetryWithCredentials,
               absl::StatusCode::kPermissionDenied, "have run out");
  StoreRequest anonymous = S3Request();
  anonymous.with_credentials = false;
  ExpectStatus(Judge(Refused(403, "AccessDenied"), anonymous), Verdict::kRetryWithCredentials,
               absl::StatusCode::kPermissionDenied, "no credentials");
}

TEST(StoreAnswerTest, AWrongClockIsNamed) {
  StoreAnswer answer = Refused(403, "RequestTimeTooSkewed");
  answer.date = kNow + absl::Hours(2);
  ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "2h behind");
  answer.date = kNow - absl::Minutes(20);
  ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "20m ahead of");
  answer.date = std::nullopt;
  ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "more than 15 minutes");
}

TEST(StoreAnswerTest, AnotherRegionIsNamed) {
  StoreAnswer moved = Refused(301, "PermanentRedirect");
  ExpectStatus(Judge(moved), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "AWS_REGION");
  moved.bucket_region = "eu-west-1";
  ExpectStatus(Judge(moved), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "eu-west-1");
  StoreAnswer malformed;
  malformed.status = 400;
  malformed.error_body =
      "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>";
  ExpectStatus(Judge(malformed), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "eu-north-1");
}

TEST(StoreAnswerTest, SaysWhatIsNotThere) {
  ExpectStatus(Judge(Refused(404, "NoSuchBucket")), Verdict::kFail, absl::StatusCode::kNotFound,
               "no such bucket");
  ExpectStatus(Judge(Refused(404, "NoSuchKey")), Verdict::kFail, absl::StatusCode::kNotFound,
               "no such object");
  ExpectStatus(Judge(Refused(416, "InvalidRange")), Verdict::kFail, absl::StatusCode::kDataLoss,
               "empty, or shorter");
}

TEST(StoreAnswerTest, AServerWithoutRangesIsRefused) {
  StoreAnswer whole = Good();
  whole.status = 200;
  ExpectStatus(Judge(whole), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "no ranges");
  StoreAnswer unsaid = Good();
  unsaid.content_range = "";
  ExpectStatus(Judge(unsaid), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "Content-Range");
}

TEST(StoreAnswerTest, WhatAStoreWritesIsShownOnlyAsOneWord) {
  StoreAnswer answer;
  answer.status = 418;
  answer.error_body = "<Code>AKIA secret words</Code>";
  ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kFailedPrecondition, "HTTP 418;");
}

TEST(StoreAnswerTest, HeadersOfAStoreAreShownOnlyAsWords) {
  StoreAnswer moved = Refused(301, "PermanentRedirect");
  moved.bucket_region = "eu-west-1\" key=AKIA";
  ExpectStatus(Judge(moved), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "set AWS_REGION of the worker to its region");
  StoreAnswer odd = Good();
  odd.content_range = "bytes \"AKIA\"/1000";
  ExpectStatus(Judge(odd), Verdict::kRetry, absl::StatusCode::kUnavailable, "says \"\"");
}

TEST(StoreAnswerTest, EveryAnswerSaysOfWhichVersionItIs) {
  StoreAnswer answer = Good();
  answer.etag = "";
  ExpectStatus(Judge(answer), Verdict::kFail, absl::StatusCode::kFailedPrecondition,
               "neither ETag nor Last-Modified");
}

TEST(StoreAnswerTest, ASizeThatNoObjectHasIsRefused) {
  for (const char* size : {"18446744073709551615", "1125899906842625"}) {
    StoreAnswer answer = Good();
    answer.content_range = absl::StrCat("bytes 0-63/", size);
    answer.received = 64;
    ExpectStatus(JudgeAnswer(S3Request(), answer, 0, 64, nullptr, kNow), Verdict::kFail,
                 absl::StatusCode::kFailedPrecondition, size);
  }
}

TEST(StoreAnswerTest, ConditionsAreExact) {
  EXPECT_EQ(ConditionOf({1, "\"v1\"", "Mon"}), "If-Match: \"v1\"");
  EXPECT_EQ(ConditionOf({1, "W/\"v1\"", "Mon"}), "If-Unmodified-Since: Mon");
  EXPECT_EQ(ConditionOf({1, "W/\"v1\"", ""}), "");
}

}  // namespace
}  // namespace paceline
