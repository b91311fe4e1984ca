#include "controller/api/audit/audit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "proto/identity.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

using nlohmann::json;

TEST(AuditedRequestTest, SecretOfAJoinIsNotKept) {
  v1::JoinRequest request;
  request.set_token("open sesame");
  request.set_node("w1");
  request.set_csr_pem("-----BEGIN");
  EXPECT_TRUE(IsAudited(*request.GetDescriptor()));
  EXPECT_EQ(AuditedRequest(request), R"({"node":"w1"})");
}

TEST(AuditTest, CallsWithARequestIdAskForAChange) {
  EXPECT_TRUE(IsAudited(*v1::DrainNodeRequest::descriptor()));
  EXPECT_TRUE(IsAudited(*v1::SubmitJobRequest::descriptor()));
  EXPECT_FALSE(IsAudited(*v1::ListJobsRequest::descriptor()));
  EXPECT_FALSE(IsAudited(*v1::NodeHistoryRequest::descriptor()));
}

TEST(AuditTest, KeepsThePlainFieldsOfARequest) {
  v1::DrainNodeRequest request;
  request.set_name("w1");
  request.set_request_id("id");
  request.set_reason("its fan is loud");
  request.set_owner("ann");
  request.set_mode(v1::DRAIN_NOW);
  request.set_deadline_s(1.5);
  request.set_dry_run(true);
  EXPECT_EQ(json::parse(AuditedRequest(request)), json({{"name", "w1"},
                                                        {"request_id", "id"},
                                                        {"reason", "its fan is loud"},
                                                        {"owner", "ann"},
                                                        {"mode", "NOW"},
                                                        {"deadline_s", 1.5},
                                                        {"dry_run", true}}));
}

TEST(AuditTest, KeepsTheNameOfASpecAndNothingElseOfIt) {
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_name("digits");
  request.mutable_spec()->set_init_from("hunter2");
  request.set_request_id("id");
  EXPECT_EQ(json::parse(AuditedRequest(request)),
            json({{"spec", {{"name", "digits"}}}, {"request_id", "id"}}));
}

TEST(AuditTest, LongTextsAndListsAreCut) {
  v1::ProfileJobRequest request;
  request.set_job(std::string(1000, 'x'));
  for (int rank = 0; rank < 40; ++rank) request.add_ranks(rank);
  const json kept = json::parse(AuditedRequest(request));
  EXPECT_EQ(kept["job"], std::string(512, 'x') + "... (1000 bytes)");
  EXPECT_EQ(kept["ranks"].size(), 33);
  EXPECT_EQ(kept["ranks"][32], "... (40)");
}

TEST(AuditTest, ALineTellsWhatCameOfTheCall) {
  AuditRecord record;
  record.time = absl::FromUnixMillis(1772366400123);
  record.method = "/paceline.v1.NodeService/Drain";
  record.peer = "ipv4:10.0.0.5:41234";
  record.request = R"({"name":"w1"})";
  record.took = absl::Microseconds(1500);
  EXPECT_EQ(AuditLine(record),
            R"({"time":"2026-03-01T12:00:00.123Z","method":"/paceline.v1.NodeService/Drain",)"
            R"("peer":"ipv4:10.0.0.5:41234","code":"OK","took_ms":1.5,"request":{"name":"w1"}})");
  record.status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no node is named \"w1\"\n");
  record.caller = {Role::kOperator, "ann\n"};
  const json line = json::parse(AuditLine(record));
  EXPECT_EQ(line["user"], "ann\n");
  EXPECT_EQ(line["role"], "operator");
  EXPECT_EQ(line["code"], "NOT_FOUND");
  EXPECT_EQ(line["message"], "no node is named \"w1\"\n");
  EXPECT_EQ(AuditLine(record).find('\n'), std::string::npos);
}

TEST(AuditTest, ARefusedCallHasALineWithoutAPeer) {
  AuditRecord record;
  record.time = absl::FromUnixMillis(1772366400123);
  record.method = "/" + std::string(1000, 'x');
  record.caller = {Role::kViewer, "bob"};
  record.request = "{}";
  record.status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no");
  const json line = json::parse(AuditLine(record));
  EXPECT_FALSE(line.contains("peer"));
  EXPECT_EQ(line["method"], "/" + std::string(511, 'x') + "... (1001 bytes)");
  EXPECT_EQ(line["user"], "bob");
  EXPECT_EQ(line["role"], "viewer");
  EXPECT_EQ(line["code"], "PERMISSION_DENIED");
  EXPECT_EQ(line["request"], json::object());
}

TEST(AuditTest, SoManyRefusalsASecondAreRecorded) {
  AuditBudget budget;
  const absl::Time begin = absl::FromUnixSeconds(1000);
  const auto taken = [&](const Principal& caller, absl::Time at) {
    int count = 0;
    for (int i = 0; i < 100; ++i) count += budget.Take(caller, at) ? 1 : 0;
    return count;
  };
  const Principal stranger;
  const Principal bob = {Role::kViewer, "bob"};
  EXPECT_EQ(taken(stranger, begin), AuditBudget::kRefusalsPerSecond);
  EXPECT_EQ(taken(stranger, begin + absl::Milliseconds(900)), 0);
  EXPECT_EQ(taken(bob, begin + absl::Milliseconds(900)), AuditBudget::kRefusalsPerSecond)
      << "whom strangers do not push out";
  EXPECT_EQ(taken(bob, begin + absl::Milliseconds(950)), 0);
  EXPECT_EQ(taken(stranger, begin + absl::Seconds(1)), AuditBudget::kRefusalsPerSecond);
  EXPECT_EQ(taken(bob, begin + absl::Seconds(1)), AuditBudget::kRefusalsPerSecond);
}

TEST(AuditTest, WhatAnybodyCouldCauseIsWithinTheBudget) {
  AuditRecord record;
  EXPECT_FALSE(IsCheap(record)) << "a node has joined";
  record.status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "there is no such join token");
  EXPECT_TRUE(IsCheap(record));
  record.caller = {Role::kSubmitter, "bob"};
  EXPECT_FALSE(IsCheap(record)) << "bounded by the rate of changes";
  record.status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many");
  EXPECT_TRUE(IsCheap(record));
}

TEST(AuditTest, TheFileIsAppendedTo) {
  const std::string path = ::testing::TempDir() + "/appended/audit.jsonl";
  std::filesystem::create_directories(::testing::TempDir() + "/appended");
  for (const char* line : {"{\"a\":1}", "{\"b\":\"{}\"}"}) {
    const auto log = AuditLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Write(line);
  }
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "{\"a\":1}\n{\"b\":\"{}\"}\n");
}

TEST(AuditTest, AFileThatCannotBeWrittenIsTold) {
  const auto log = AuditLog::Open("/proc/nothing/audit.jsonl");
  EXPECT_EQ(log.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(log.status().message().find("/proc/nothing/audit.jsonl"), absl::string_view::npos);
}

}  // namespace
}  // namespace paceline
