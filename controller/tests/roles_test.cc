// Who may do what, over real sockets.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "controller/api/admission/access_table.h"
#include "controller/api/audit/audit.h"
#include "controller/testing/roles_fixture.h"
#include "proto/admin.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Viewers may change nothing, and submitters nothing but jobs. Join needs a token instead of a
// role, and Renew a certificate.
TEST(AccessTableTest, WhatChangesSomethingNeedsARoleForIt) {
  int changes = 0;
  for (const MethodRule& rule : MethodRules()) {
    const std::string name = absl::StrReplaceAll(rule.method.substr(1), {{"/", "."}});
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
    if (method == nullptr || !IsAudited(*method->input_type())) continue;
    if (absl::EndsWith(name, ".Join") || absl::EndsWith(name, ".Renew")) continue;
    ++changes;
    EXPECT_FALSE(MayCall(Role::kNone, rule)) << name;
    EXPECT_FALSE(MayCall(Role::kViewer, rule)) << name;
    EXPECT_EQ(MayCall(Role::kSubmitter, rule), rule.scope == Scope::kOwn) << name;
    EXPECT_TRUE(MayCall(Role::kAdmin, rule)) << name;
  }
  EXPECT_GT(changes, 15);
}

TEST_F(RolesTest, WithoutAnIdentityOnlyACheckOfHealthIsServed) {
  EXPECT_EQ(GetAs("", alice_).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(GetAs("eve", alice_).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(GetAs("eve", alice_).error_message(), HasSubstr("--user-tokens"));
  grpc::GenericStub stub(channel_);
  const auto code = [&](const std::string& method) {
    Call call("");
    grpc::CompletionQueue queue;
    const grpc::Slice empty("");
    const grpc::ByteBuffer message(&empty, 1);
    auto reader = stub.PrepareUnaryCall(call, method, message, &queue);
    reader->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    reader->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status.error_code();
  };
  EXPECT_EQ(code("/grpc.health.v1.Health/Check"), grpc::StatusCode::OK);
  EXPECT_EQ(code("/grpc.health.v1.Health/Watch"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("/paceline.v1.JobService/List"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("/paceline.v1.JobService/Destroy"), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(code("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(RolesTest, JobsOfSubmittersDoNotGoBeforeAllOthers) {
  const auto submit = [this](const std::string& user, int priority) {
    Call call(user);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.mutable_spec()->set_priority(priority);
    request.set_request_id(NextId());
    request.set_validate_only(true);
    v1::Job reply;
    return jobs_->Submit(call, request, &reply);
  };
  const grpc::Status refused = submit("alice", 1);
  EXPECT_EQ(Reason(refused), "PRIORITY_TOO_HIGH") << refused.error_message();
  EXPECT_TRUE(submit("alice", 0).ok());
  EXPECT_TRUE(submit("alice", -1000).ok());
  EXPECT_TRUE(submit("ops", 1000).ok());
}

// All calls share one connection.
TEST_F(RolesTest, ATokenSpeaksForItsOwnCallOnly) {
  EXPECT_TRUE(GetAs("ops", alice_).ok());
  EXPECT_EQ(GetAs("", alice_).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(GetAs("bob", alice_).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(GetAs("bob", bob_).ok());
  EXPECT_TRUE(GetAs("alice", alice_).ok());
  EXPECT_EQ(GetAs("alice", bob_).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(RolesTest, ACallerCannotNameItself) {
  Call call("bob");
  call->AddMetadata("paceline-caller", "admin root");
  call->AddMetadata("paceline-user", "alice");
  v1::GetJobRequest request;
  request.set_job(alice_);
  v1::Job job;
  EXPECT_EQ(jobs_->Get(call, request, &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(RolesTest, RolesMayWhatTheTableSays) {
  const auto cordon = [&](const std::string& user) {
    Call call(user);
    v1::CordonNodeRequest request;
    request.set_name("w0");
    request.set_request_id(NextId());
    request.set_owner("somebody");
    request.set_reason("its fan is loud");
    v1::Node node;
    return v1::NodeService::NewStub(channel_)->Cordon(call, request, &node).error_code();
  };
  EXPECT_EQ(cordon("vic"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(cordon("alice"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(cordon("ops"), grpc::StatusCode::OK);
  EXPECT_EQ(cordon("root"), grpc::StatusCode::OK);
  const auto cancel = [&](const std::string& user) {
    Call call(user);
    v1::CancelJobRequest request;
    request.set_job(alice_);
    request.set_request_id(NextId());
    v1::Job job;
    return jobs_->Cancel(call, request, &job).error_code();
  };
  EXPECT_EQ(cancel("vic"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(cancel("bob"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(cancel("alice"), grpc::StatusCode::OK);
  const auto level = [&](const std::string& user) {
    Call call(user);
    v1::SetLogLevelRequest request;
    request.set_request_id(NextId());
    request.set_owner("somebody");
    v1::LogLevelReply reply;
    return v1::AdminService::NewStub(channel_)->SetLogLevel(call, request, &reply).error_code();
  };
  EXPECT_EQ(level("ops"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(level("root"), grpc::StatusCode::OK);
  // A user is no worker.
  Call call("root");
  const auto worker = v1::WorkerService::NewStub(channel_);
  auto session = worker->Session(call);
  v1::ControllerMessage message;
  EXPECT_FALSE(session->Read(&message));
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(RolesTest, TheTokensAreReadAgainWhenTheyChange) {
  EXPECT_TRUE(GetAs("vic", alice_).ok());
  WriteTokens({"viewer zoe"});
  grpc::Status status;
  for (int i = 0; i < 2000 && !(status = GetAs("zoe", alice_)).ok(); ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(GetAs("vic", alice_).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(RolesTest, TheAuditRecordHasThePrincipal) {
  {
    Call call("ops");
    call->AddMetadata("paceline-user", "somebody-else");
    v1::CancelJobRequest request;
    request.set_job(bob_);
    request.set_request_id(NextId());
    v1::Job job;
    ASSERT_TRUE(jobs_->Cancel(call, request, &job).ok());
  }
  GetAs("eve", bob_);
  server_.reset();
  std::ifstream file(directory_ + "/audit.jsonl");
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) {
    records.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(records.size(), 4) << "two jobs were submitted before";
  EXPECT_EQ(records[2]["method"], "/paceline.v1.JobService/Cancel");
  EXPECT_EQ(records[2]["user"], "ops");
  EXPECT_EQ(records[2]["role"], "operator");
  EXPECT_EQ(records[3]["method"], "/paceline.v1.JobService/Get");
  EXPECT_EQ(records[3]["code"], "UNAUTHENTICATED");
  EXPECT_FALSE(records[3].contains("user"));
}

TEST(RolesStartTest, TokensInPlainTextAndBadTokensAreRefused) {
  const std::string directory = NewDirectory();
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory, directory + "/address", ""};
  options.user_tokens = directory + "/tokens";
  options.plaintext = true;
  const ServerFailure plain = RunningServer(options).failure();
  EXPECT_THAT(std::string(plain.status.message()), HasSubstr("--user-tokens"));
  options.plaintext = false;
  options.credentials = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  const ServerFailure missing = RunningServer(options).failure();
  EXPECT_THAT(std::string(missing.status.message()), HasSubstr(options.user_tokens));
}

}  // namespace
}  // namespace paceline