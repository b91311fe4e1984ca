// The audit record and the log levels, through a controller on a real socket.
#include "controller/api/audit/audit.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/log_options.h"
#include "controller/testing/running_server.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor_database.h"
#include "proto/admin.grpc.pb.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

using nlohmann::json;

std::vector<json> RecordsIn(const std::string& directory) {
  std::ifstream file(directory + "/audit.jsonl");
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
  return records;
}

grpc::Status Drain(const RunningServer& server, const std::string& owner) {
  grpc::ClientContext context;
  v1::DrainNodeRequest request;
  request.set_name("w1");
  request.set_request_id("one-" + owner);
  request.set_reason("its fan is loud");
  request.set_owner(owner);
  v1::DrainNodeResponse reply;
  return v1::NodeService::NewStub(server.Channel())->Drain(&context, request, &reply);
}

TEST(AuditTest, RecordsWhoAskedForWhatAndWhatCameOfIt) {
  const std::string directory = NewDirectory();
  {
    const RunningServer server(directory);
    EXPECT_EQ(Drain(server, "ann").error_code(), grpc::StatusCode::NOT_FOUND);
  }
  {
    const RunningServer server(directory);
    EXPECT_EQ(Drain(server, "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  const std::vector<json> records = RecordsIn(directory);
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[0]["method"], "/paceline.v1.NodeService/Drain");
  EXPECT_EQ(records[0]["code"], "NOT_FOUND");
  EXPECT_EQ(records[0]["request"]["owner"], "ann");
  EXPECT_EQ(records[0]["request"]["name"], "w1");
  EXPECT_EQ(records[0]["peer"].get<std::string>().rfind("ipv4:127.0.0.1:", 0), 0);
  EXPECT_EQ(records[1]["code"], "INVALID_ARGUMENT");
  EXPECT_NE(records[1]["message"], "");
}

grpc::Status Submit(const RunningServer& server, const std::string& user) {
  grpc::ClientContext context;
  context.AddMetadata("paceline-user", user);
  v1::SubmitJobRequest request;
  request.set_request_id("submit");
  v1::Job reply;
  return v1::JobService::NewStub(server.Channel())->Submit(&context, request, &reply);
}

// Names no user if `user` is empty.
grpc::Status Delete(const RunningServer& server, const std::string& user) {
  grpc::ClientContext context;
  if (!user.empty()) context.AddMetadata("paceline-user", user);
  v1::DeleteCheckpointRequest request;
  request.set_checkpoint("digits/20");
  request.set_request_id("delete");
  v1::Checkpoint reply;
  return v1::CheckpointService::NewStub(server.Channel())->Delete(&context, request, &reply);
}

TEST(AuditTest, RecordsWhoTheCallerSaysItIs) {
  const std::string directory = NewDirectory();
  {
    const RunningServer server(directory);
    EXPECT_EQ(Submit(server, "ann").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Delete(server, "bob").error_code(), grpc::StatusCode::NOT_FOUND);
    Delete(server, "");
    Delete(server, std::string(1000, 'x'));
  }
  const std::vector<json> records = RecordsIn(directory);
  ASSERT_EQ(records.size(), 4);
  EXPECT_EQ(records[0]["method"], "/paceline.v1.JobService/Submit");
  EXPECT_EQ(records[0].value("user", ""), "ann");
  EXPECT_EQ(records[1]["method"], "/paceline.v1.CheckpointService/Delete");
  EXPECT_EQ(records[1].value("user", ""), "bob");
  EXPECT_FALSE(records[2].contains("user")) << records[2];
  EXPECT_EQ(records[3].value("user", ""), std::string(512, 'x') + "... (1000 bytes)");
}

// A new method that changes something takes a request_id, and is recorded. Add one that only reads
// here. Session is not recorded: workers report by it, and ask for nothing.
TEST(AuditTest, CallsWithoutARecordAskForNoChange) {
  using google::protobuf::DescriptorPool;
  std::vector<std::string> files;
  ASSERT_TRUE(DescriptorPool::internal_generated_database()->FindAllFileNames(&files));
  std::set<std::string> unrecorded;
  for (const std::string& name : files) {
    const auto* file = DescriptorPool::generated_pool()->FindFileByName(name);
    if (file == nullptr || file->package() != "paceline.v1") continue;
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        const google::protobuf::MethodDescriptor& method = *service.method(m);
        const bool streams = method.client_streaming() || method.server_streaming();
        if (!streams && IsAudited(*method.input_type())) continue;
        unrecorded.insert(service.name() + "." + method.name());
      }
    }
  }
  const std::set<std::string> reads = {
      "AdminService.Backup",
      "AdminService.GetLogLevel",
      "AutomationService.GetStatus",
      "CheckpointService.Get",
      "CheckpointService.List",
      "IdentityService.ListRevoked",
      "IdentityService.WhoAmI",
      "JobHistoryService.Get",
      "JobHistoryService.Watch",
      "JobService.Advise",
      "JobService.Get",
      "JobService.List",
      "JobService.ListDecisions",
      "JobService.StreamLogs",
      "JobService.UploadCode",  // Its Submit is recorded.
      "JobService.Watch",
      "JobService.Why",
      "NodeService.Get",
      "NodeService.History",
      "NodeService.List",
      "NodeService.Watch",
      "TelemetryService.GetCurves",
      "TelemetryService.GetRanks",
      "TelemetryService.GetSeries",
      "TelemetryService.GetSteps",
      "TelemetryService.ListJobs",
      "WorkerService.Session",
  };
  EXPECT_EQ(unrecorded, reads);
}

TEST(AuditTest, ReadingIsNotRecorded) {
  const std::string directory = NewDirectory();
  const RunningServer server(directory);
  grpc::ClientContext context;
  v1::ListJobsResponse reply;
  ASSERT_TRUE(v1::JobService::NewStub(server.Channel())->List(&context, {}, &reply).ok());
  EXPECT_TRUE(RecordsIn(directory).empty());
}

class LogLevelTest : public ::testing::Test {
 protected:
  // The log level is shared by the whole process.
  ~LogLevelTest() override { SetLogLevel(LogLevel::kInfo); }

  grpc::Status Set(v1::LogLevel level, const std::string& owner = "ann",
                   const std::string& node = "") {
    grpc::ClientContext context;
    v1::SetLogLevelRequest request;
    request.set_level(level);
    request.set_request_id("one");
    request.set_owner(owner);
    request.set_node(node);
    return stub_->SetLogLevel(&context, request, &reply_);
  }
  v1::LogLevel Get() {
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->GetLogLevel(&context, {}, &reply_).ok());
    return reply_.level();
  }

  const std::string directory_ = NewDirectory();
  const RunningServer server_{directory_};
  const std::unique_ptr<v1::AdminService::Stub> stub_ =
      v1::AdminService::NewStub(server_.Channel());
  v1::LogLevelReply reply_;
};

TEST_F(LogLevelTest, ChangesWhileTheControllerRuns) {
  EXPECT_EQ(Get(), v1::LOG_LEVEL_INFO);
  ASSERT_TRUE(Set(v1::LOG_LEVEL_DEBUG).ok());
  EXPECT_EQ(reply_.level(), v1::LOG_LEVEL_DEBUG);
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kDebug);
  EXPECT_EQ(Get(), v1::LOG_LEVEL_DEBUG);
  ASSERT_TRUE(Set(v1::LOG_LEVEL_UNSPECIFIED).ok());
  EXPECT_EQ(Get(), v1::LOG_LEVEL_INFO);
  EXPECT_EQ(RecordsIn(directory_).size(), 2);
}

TEST_F(LogLevelTest, BadRequestsChangeNothing) {
  EXPECT_EQ(Set(static_cast<v1::LogLevel>(9)).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Set(v1::LOG_LEVEL_DEBUG, "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Set(v1::LOG_LEVEL_DEBUG, "ann", "nowhere").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Get(), v1::LOG_LEVEL_INFO);
}

}  // namespace
}  // namespace paceline
