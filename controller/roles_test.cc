// Who may do what, over real sockets: tokens of users, on one connection for all of them, through
// gRPC's credentials for local connections.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/rpc/access_table.h"
#include "controller/rpc/user_tokens.h"
#include "controller/testing/server_fixture.h"
#include "proto/admin.grpc.pb.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job_history.grpc.pb.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TokenOf(const std::string& user) { return user + std::string(40, '-'); }

// A call of a user; without a name, of nobody.
class Call {
 public:
  explicit Call(const std::string& user) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!user.empty()) {
      context_.AddMetadata("authorization", absl::StrCat("Bearer ", TokenOf(user)));
    }
  }
  operator grpc::ClientContext*() { return &context_; }  // NOLINT(google-explicit-constructor)
  grpc::ClientContext* operator->() { return &context_; }

 private:
  grpc::ClientContext context_;
};

TEST(AccessTableTest, EachServedMethodHasARowAndEachRowAMethod) {
  const absl::Status fits = CheckRules(MethodRules(), ServedMethods());
  EXPECT_TRUE(fits.ok()) << fits;
}

// Of two jobs that train, one of alice, whom the other does not know of, and one of bob.
class RolesTest : public ServerTest {
 protected:
  RolesTest() {
    auto worker = Join(Hello("w0", 4));
    alice_ = SubmitAs("alice", &*worker, 1);
    bob_ = SubmitAs("bob", &*worker, 2);
    worker.reset();
    server_.reset();
    WriteTokens({"viewer vic", "submitter alice", "submitter bob", "operator ops", "admin root"});
    ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory_, directory_ + "/address", ""};
    options.credentials = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
    options.user_tokens = directory_ + "/tokens";
    options.cluster.ended_jobs_kept = 2;
    server_ = std::make_unique<RunningServer>(options);
    EXPECT_TRUE(server_->failure().status.ok()) << server_->failure().status;
    channel_ = grpc::CreateChannel(server_->Address("grpc"),
                                   grpc::experimental::LocalCredentials(LOCAL_TCP));
    jobs_ = v1::JobService::NewStub(channel_);
    nodes_ = v1::NodeService::NewStub(channel_);
    checkpoints_ = v1::CheckpointService::NewStub(channel_);
    histories_ = v1::JobHistoryService::NewStub(channel_);
    telemetry_ = v1::TelemetryService::NewStub(channel_);
  }

  void WriteTokens(const std::vector<std::string>& users) {
    const std::string path = directory_ + "/tokens";
    std::ofstream file(path);
    for (const std::string& user : users) {
      file << TokenHash(TokenOf(user.substr(user.find(' ') + 1))) << " " << user << "\n";
    }
    file.close();
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  }

  // Without TLS, by the name that the caller says; it trains then.
  std::string SubmitAs(const std::string& user, PlayedWorker* worker, int trainers) {
    grpc::ClientContext context;
    context.AddMetadata("paceline-user", user);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.mutable_spec()->set_name(user + "s");
    request.mutable_spec()->mutable_checkpoint()->set_directory("/ckpt");
    request.set_request_id("submit " + user);
    v1::Job job;
    EXPECT_TRUE(jobs_->Submit(&context, request, &job).ok());
    EXPECT_EQ(job.submitter(), user);
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerPlan& plan : worker->ReadPlan(trainers).trainers()) {
      reports.push_back(Trainer(plan, v1::TRAINER_RUNNING));
    }
    worker->Report(reports);
    WaitFor(job.id(), v1::RUNNING);
    return job.id();
  }

  grpc::Status GetAs(const std::string& user, const std::string& reference) {
    Call call(user);
    v1::GetJobRequest request;
    request.set_job(reference);
    v1::Job job;
    return jobs_->Get(call, request, &job);
  }
  // Ids, from pages of one.
  std::vector<std::string> ListAs(const std::string& user) {
    std::vector<std::string> ids;
    v1::ListJobsRequest request;
    request.set_page_size(1);
    do {
      Call call(user);
      v1::ListJobsResponse response;
      EXPECT_TRUE(jobs_->List(call, request, &response).ok());
      EXPECT_EQ(response.jobs_size(), 1) << "a page of a list that goes on is full";
      for (const auto& job : response.jobs()) ids.push_back(job.id());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
  std::string NextId() { return absl::StrCat("request ", ++requests_); }

  std::string alice_;
  std::string bob_;
  int requests_ = 0;
  std::unique_ptr<v1::JobHistoryService::Stub> histories_;
  std::unique_ptr<v1::TelemetryService::Stub> telemetry_;
};

TEST_F(RolesTest, WithoutAnIdentityOnlyHealthIsServed) {
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
  EXPECT_EQ(code("/paceline.v1.JobService/List"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("/paceline.v1.JobService/Destroy"), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(code("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            grpc::StatusCode::UNAUTHENTICATED);
}

// All calls are on one connection.
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
    return nodes_->Cordon(call, request, &node).error_code();
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

// What a method of scope kOwn answers a submitter about a job. For a stream: what it ends with,
// OK if it begins.
class OwnScopeTest : public RolesTest {
 protected:
  using Ask = std::function<grpc::Status(const std::string& user, const std::string& job)>;

  // Methods that take a job, by name.
  std::map<std::string, Ask> Asks() {
    std::map<std::string, Ask> asks;
    const auto add = [&](const std::string& service, auto& stub, const std::string& method,
                         auto call, auto request, auto reply) {
      asks[absl::StrCat("/paceline.v1.", service, "/", method)] =
          [this, stub = stub.get(), call, request, reply](const std::string& user,
                                                          const std::string& job) {
            Call context(user);
            auto filled = request;
            this->Fill(&filled, job);
            auto answer = reply;
            return (stub->*call)(context, filled, &answer);
          };
    };
    using Jobs = v1::JobService::Stub;
    using Checkpoints = v1::CheckpointService::Stub;
    using Telemetry = v1::TelemetryService::Stub;
    add("JobService", jobs_, "Advise", &Jobs::Advise, v1::AdviseRequest(), v1::JobAdvice());
    add("JobService", jobs_, "ApplyAdvice", &Jobs::ApplyAdvice, v1::ApplyAdviceRequest(),
        v1::RemedyDecision());
    add("JobService", jobs_, "Cancel", &Jobs::Cancel, v1::CancelJobRequest(), v1::Job());
    add("JobService", jobs_, "ChangeLadder", &Jobs::ChangeLadder, v1::ChangeLadderRequest(),
        v1::Job());
    add("JobService", jobs_, "ChangeMode", &Jobs::ChangeMode, v1::ChangeModeRequest(), v1::Job());
    add("JobService", jobs_, "Get", &Jobs::Get, v1::GetJobRequest(), v1::Job());
    add("JobService", jobs_, "ListDecisions", &Jobs::ListDecisions, v1::ListDecisionsRequest(),
        v1::ListDecisionsResponse());
    add("JobService", jobs_, "Profile", &Jobs::Profile, v1::ProfileJobRequest(), v1::Job());
    add("JobService", jobs_, "Resume", &Jobs::Resume, v1::ResumeJobRequest(), v1::Job());
    add("JobService", jobs_, "Why", &Jobs::Why, v1::WhyRequest(), v1::WhyResponse());
    add("CheckpointService", checkpoints_, "Delete", &Checkpoints::Delete,
        v1::DeleteCheckpointRequest(), v1::Checkpoint());
    add("CheckpointService", checkpoints_, "Get", &Checkpoints::Get, v1::GetCheckpointRequest(),
        v1::Checkpoint());
    add("CheckpointService", checkpoints_, "List", &Checkpoints::List, v1::ListCheckpointsRequest(),
        v1::ListCheckpointsResponse());
    add("CheckpointService", checkpoints_, "Pin", &Checkpoints::Pin, v1::PinCheckpointRequest(),
        v1::Checkpoint());
    add("CheckpointService", checkpoints_, "Save", &Checkpoints::Save, v1::SaveCheckpointRequest(),
        v1::Job());
    add("TelemetryService", telemetry_, "GetRanks", &Telemetry::GetRanks, v1::GetJobRanksRequest(),
        v1::JobRanks());
    add("TelemetryService", telemetry_, "GetSeries", &Telemetry::GetSeries,
        v1::GetJobSeriesRequest(), v1::JobSeries());
    add("TelemetryService", telemetry_, "GetSteps", &Telemetry::GetSteps, v1::GetJobStepsRequest(),
        v1::JobSteps());
    add("JobHistoryService", histories_, "Get", &v1::JobHistoryService::Stub::Get,
        v1::GetJobHistoryRequest(), v1::JobHistory());
    asks["/paceline.v1.JobHistoryService/Watch"] = [this](const std::string& user,
                                                          const std::string& job) {
      Call context(user);
      v1::WatchJobHistoryRequest request;
      Fill(&request, job);
      return Begin<v1::JobHistoryEvent>(context, histories_->Watch(context, request));
    };
    asks["/paceline.v1.JobService/StreamLogs"] = [this](const std::string& user,
                                                        const std::string& job) {
      Call context(user);
      v1::StreamLogsRequest request;
      Fill(&request, job);
      return Begin<v1::LogChunk>(context, jobs_->StreamLogs(context, request));
    };
    // To start from its newest checkpoint.
    asks["/paceline.v1.JobService/Submit"] = [this](const std::string& user,
                                                    const std::string& job) {
      Call context(user);
      v1::SubmitJobRequest request;
      *request.mutable_spec() = Spec();
      request.mutable_spec()->set_resume_from(job);
      request.set_request_id(NextId());
      v1::Job reply;
      return jobs_->Submit(context, request, &reply);
    };
    return asks;
  }

  // Sets what the request has of: the job, the checkpoint, a request's id, who applies.
  void Fill(google::protobuf::Message* request, const std::string& job) {
    const auto set = [&](const char* name, const std::string& value) {
      const auto* field = request->GetDescriptor()->FindFieldByName(name);
      if (field != nullptr) request->GetReflection()->SetString(request, field, value);
    };
    set("job", job);
    set("checkpoint", job);
    set("request_id", NextId());
    set("by", "somebody");
  }

  template <typename Message>
  static grpc::Status Begin(Call& call, std::unique_ptr<grpc::ClientReader<Message>> stream) {
    Message message;
    if (!stream->Read(&message)) return stream->Finish();
    call->TryCancel();
    return grpc::Status::OK;
  }
};

// A new method of scope kOwn needs a case here, or in a test of lists below.
TEST_F(OwnScopeTest, OthersJobsAreNotThereForASubmitter) {
  const std::set<std::string> lists = {"/paceline.v1.JobService/List",
                                       "/paceline.v1.JobService/Watch",
                                       "/paceline.v1.TelemetryService/ListJobs"};
  const std::map<std::string, Ask> asks = Asks();
  for (const MethodRule& rule : MethodRules()) {
    const std::string method(rule.method);
    if (rule.scope != Scope::kOwn || lists.count(method) > 0) continue;
    const auto ask = asks.find(method);
    ASSERT_NE(ask, asks.end()) << "no case for " << method;
    for (const std::string& reference : {alice_, std::string("alices"), alice_.substr(0, 14)}) {
      const grpc::Status foreign = ask->second("bob", reference);
      EXPECT_EQ(foreign.error_code(), grpc::StatusCode::NOT_FOUND) << method << " " << reference;
      EXPECT_EQ(Reason(foreign), "JOB_NOT_FOUND") << method << " " << reference;
    }
    EXPECT_NE(Reason(ask->second("bob", bob_)), "JOB_NOT_FOUND") << method;
    EXPECT_NE(Reason(ask->second("ops", alice_)), "JOB_NOT_FOUND") << method;
  }
}

TEST_F(RolesTest, ListsHaveASubmittersOwnJobsOnly) {
  EXPECT_THAT(ListAs("bob"), ElementsAre(bob_));
  EXPECT_THAT(ListAs("alice"), ElementsAre(alice_));
  EXPECT_THAT(ListAs("vic"), ElementsAre(bob_, alice_));
  // With others' jobs between them.
  std::vector<std::string> bobs = {bob_};
  for (const char* user : {"bob", "alice", "bob"}) {
    Call call(user);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.set_request_id(NextId());
    v1::Job job;
    ASSERT_TRUE(jobs_->Submit(call, request, &job).ok());
    EXPECT_EQ(job.submitter(), user);
    if (user == std::string("bob")) bobs.insert(bobs.begin(), job.id());
  }
  EXPECT_EQ(ListAs("bob"), bobs);
  EXPECT_EQ(ListAs("ops").size(), 5);
}

TEST_F(RolesTest, TelemetryListsASubmittersOwnJobsOnly) {
  const auto listed = [&](const std::string& user) {
    Call call(user);
    v1::ListJobTelemetryResponse response;
    EXPECT_TRUE(telemetry_->ListJobs(call, {}, &response).ok());
    return response.jobs_size();
  };
  EXPECT_EQ(listed("bob"), 1);
  EXPECT_EQ(listed("vic"), 2);
}

TEST_F(RolesTest, AWatchShowsASubmittersOwnJobsOnly) {
  Call call("bob");
  auto stream = jobs_->Watch(call, v1::WatchJobsRequest());
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::ADDED);
  EXPECT_EQ(event.job().id(), bob_);
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::BOOKMARK);
  // A change of another's job, and then one of his.
  const std::vector<std::pair<std::string, std::string>> cancelled = {{"alice", alice_},
                                                                      {"bob", bob_}};
  for (const auto& [user, job] : cancelled) {
    Call cancel(user);
    v1::CancelJobRequest request;
    request.set_job(job);
    request.set_request_id(NextId());
    v1::Job reply;
    ASSERT_TRUE(jobs_->Cancel(cancel, request, &reply).ok());
  }
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.job().id(), bob_);
  call->TryCancel();
}

TEST_F(RolesTest, AWatchTellsASubmitterThatItsJobIsKeptNoMore) {
  Call call("bob");
  auto stream = jobs_->Watch(call, v1::WatchJobsRequest());
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.set_request_id(NextId());
    v1::Job job;
    ASSERT_TRUE(jobs_->Submit(Call("bob"), request, &job).ok());
    ids.push_back(job.id());
    v1::CancelJobRequest cancel;
    cancel.set_job(job.id());
    cancel.set_request_id(NextId());
    ASSERT_TRUE(jobs_->Cancel(Call("bob"), cancel, &job).ok());
    ASSERT_EQ(job.state(), v1::CANCELLED) << "it waited";
  }
  v1::JobEvent event;
  do {
    ASSERT_TRUE(stream->Read(&event));
  } while (event.type() != v1::DELETED);
  EXPECT_EQ(event.job().id(), ids[0]);
  call->TryCancel();
}

TEST_F(RolesTest, AnothersRequestIsNotRepeated) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_request_id("one");
  v1::Job first;
  v1::Job second;
  ASSERT_TRUE(jobs_->Submit(Call("alice"), request, &first).ok());
  EXPECT_EQ(Reason(jobs_->Submit(Call("bob"), request, &second)), "REQUEST_ID_REUSED");
  EXPECT_EQ(second.id(), "");
  ASSERT_TRUE(jobs_->Submit(Call("alice"), request, &second).ok());
  EXPECT_EQ(second.id(), first.id());
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
  const ServerFailure plain = RunningServer(options).failure();
  EXPECT_THAT(std::string(plain.status.message()), HasSubstr("--user-tokens"));
  options.credentials = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  const ServerFailure missing = RunningServer(options).failure();
  EXPECT_THAT(std::string(missing.status.message()), HasSubstr(options.user_tokens));
}

}  // namespace
}  // namespace paceline
