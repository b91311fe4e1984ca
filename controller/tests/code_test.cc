// Code of jobs: uploaded, kept, and given to the nodes that run the jobs, over real sockets.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "common/tls/key_and_request.h"
#include "common/user_metadata.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class CodeTest : public ServerTest {
 protected:
  grpc::Status Upload(const v1::Code& code, int64_t offset, const std::string& data,
                      const std::string& user = "ann") {
    grpc::ClientContext context;
    context.AddMetadata(kUserMetadata, user);
    v1::UploadCodeRequest request;
    *request.mutable_code() = code;
    request.set_offset(offset);
    request.set_data(data);
    v1::UploadCodeResponse response;
    const grpc::Status status = jobs_->UploadCode(&context, request, &response);
    received_ = response.received();
    return status;
  }
  // Uploads as a client does.
  grpc::Status UploadAll(const std::string& bytes, const std::string& user = "ann") {
    const v1::Code code = CodeOf(bytes);
    grpc::Status status = Upload(code, 0, "", user);
    while (status.ok() && received_ < code.bytes()) {
      const auto offset = static_cast<size_t>(received_);
      status = Upload(code, received_, bytes.substr(offset, kMaxCodePart), user);
    }
    return status;
  }
  static v1::Code CodeOf(const std::string& bytes) {
    v1::Code code;
    code.set_sha256(Sha256Hex(bytes));
    code.set_bytes(static_cast<int64_t>(bytes.size()));
    return code;
  }
  grpc::Status SubmitWith(const v1::Code& code, const std::string& user, v1::Job* job) {
    grpc::ClientContext context;
    context.AddMetadata(kUserMetadata, user);
    v1::SubmitJobRequest request;
    request.mutable_spec()->set_name("own");
    request.mutable_spec()->add_command("true");
    *request.mutable_spec()->mutable_code() = code;
    request.set_request_id(absl::StrCat("request-", ++requests_));
    return jobs_->Submit(&context, request, job);
  }
  static v1::Hello Taker(const std::string& node, bool takes_code = true) {
    v1::Hello hello = Hello(node, 2, node);
    (*hello.mutable_labels())["commands"] = "on";
    if (takes_code) (*hello.mutable_labels())["code"] = "on";
    return hello;
  }
  // Asks for code as a node does.
  static v1::CodeData Ask(PlayedWorker& worker, const v1::Job& job, int64_t offset) {
    v1::WorkerMessage message;
    message.mutable_code_request()->set_job(job.id());
    message.mutable_code_request()->set_sha256(job.spec().code().sha256());
    message.mutable_code_request()->set_offset(offset);
    worker.Write(message);
    while (const auto answer = worker.Read()) {
      if (answer->has_code()) return answer->code();
    }
    ADD_FAILURE() << "no answer";
    return {};
  }

  int64_t received_ = 0;
  int requests_ = 0;
};

TEST_F(CodeTest, WhatWasSentReachesTheNodeAlsoAfterARestart) {
  auto worker = Join(Taker("w0"));
  std::string bytes(kMaxCodePart + 1000, 'a');
  bytes[5] = 'b';
  v1::Job job;
  EXPECT_EQ(Reason(SubmitWith(CodeOf(bytes), "ann", &job)), "CODE_NOT_FOUND");
  ASSERT_TRUE(UploadAll(bytes).ok());
  const grpc::Status submitted = SubmitWith(CodeOf(bytes), "ann", &job);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();
  worker->ReadPlan(1);
  worker.reset();
  Restart();
  worker = Join(Taker("w0"));
  const v1::CodeData first = Ask(*worker, job, 0);
  const v1::CodeData second = Ask(*worker, job, static_cast<int64_t>(first.data().size()));
  EXPECT_EQ(first.data().size(), kMaxCodePart);
  EXPECT_TRUE(first.data() + second.data() == bytes) << second.error();
  EXPECT_THAT(Ask(*worker, job, static_cast<int64_t>(bytes.size())).error(),
              HasSubstr("no part at"));
}

TEST_F(CodeTest, OnlyNodesThatRunTheJobGetIt) {
  auto worker = Join(Taker("w0"));
  auto other = Join(Taker("w1"));
  ASSERT_TRUE(UploadAll("bytes").ok());
  v1::Job job;
  ASSERT_TRUE(SubmitWith(CodeOf("bytes"), "ann", &job).ok());
  const std::string node = WaitFor(job.id(), v1::STARTING).ranks(0).node();
  PlayedWorker& runs = node == "w0" ? *worker : *other;
  PlayedWorker& idles = node == "w0" ? *other : *worker;
  EXPECT_EQ(Ask(runs, job, 0).data(), "bytes");
  EXPECT_THAT(Ask(idles, job, 0).error(), HasSubstr("no rank of a job with it"));
}

TEST_F(CodeTest, OnlyWhoHasSentItSubmitsJobsWithIt) {
  const auto worker = Join(Taker("w0"));
  ASSERT_TRUE(UploadAll("bytes").ok());
  v1::Job job;
  EXPECT_EQ(Reason(SubmitWith(CodeOf("bytes"), "bob", &job)), "CODE_NOT_FOUND");
  ASSERT_TRUE(Upload(CodeOf("bytes"), 0, "", "bob").ok());
  EXPECT_EQ(received_, 0) << "that it is there does not show";
  ASSERT_TRUE(UploadAll("bytes", "bob").ok());
  EXPECT_TRUE(SubmitWith(CodeOf("bytes"), "bob", &job).ok());
  EXPECT_TRUE(SubmitWith(CodeOf("bytes"), "ann", &job).ok());
  Restart();
  EXPECT_TRUE(Upload(CodeOf("bytes"), 0, "", "bob").ok());
  EXPECT_EQ(received_, 5);
}

TEST_F(CodeTest, OtherBytesThanTheHashSaysAreForgotten) {
  EXPECT_EQ(Reason(Upload(CodeOf("bytes"), 0, "other")), "CODE_INVALID");
  ASSERT_TRUE(Upload(CodeOf("bytes"), 0, "").ok());
  EXPECT_EQ(received_, 0);
  EXPECT_EQ(Reason(Upload(CodeOf("bytes"), 0, "byte")), "CODE_INVALID") << "a part is whole";
  EXPECT_TRUE(Upload(CodeOf("bytes"), 3, "xx").ok());
  EXPECT_EQ(received_, 0) << "go on from there";
  v1::Code no_hash = CodeOf("bytes");
  no_hash.set_sha256("0");
  EXPECT_EQ(Reason(Upload(no_hash, 0, "")), "CODE_INVALID");
  EXPECT_EQ(Reason(Upload(CodeOf("bytes"), 0, std::string(kMaxCodePart + 1, 'x'))),
            "REQUEST_INVALID");
  EXPECT_TRUE(UploadAll("bytes").ok());
}

TEST_F(CodeTest, ASubmitterHasAShareOfTheRoom) {
  v1::Code code;
  code.set_bytes(kMaxCodeBytes);
  for (const char* digit : {"a", "b"}) {
    code.set_sha256(std::string(64, *digit));
    EXPECT_TRUE(Upload(code, 0, "").ok());
  }
  code.set_sha256(std::string(64, 'c'));
  code.set_bytes(1);
  const grpc::Status refused = Upload(code, 0, "");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "TOO_MUCH_CODE");
  EXPECT_TRUE(Upload(code, 0, "", "bob").ok());
  EXPECT_THAT(ReadMetrics("limit=\"code\"} 1"), HasSubstr("limit=\"code\"} 1"));
}

TEST_F(CodeTest, WorkersOfEarlierVersionsAreNotGivenSuchJobs) {
  const auto worker = Join(Taker("w0", /*takes_code=*/false));
  ASSERT_TRUE(UploadAll("bytes").ok());
  v1::Job job;
  const grpc::Status refused = SubmitWith(CodeOf("bytes"), "ann", &job);
  EXPECT_EQ(Reason(refused), "JOB_CANNOT_FIT");
  EXPECT_THAT(refused.error_message(), HasSubstr("label code=on"));
}

}  // namespace
}  // namespace paceline
