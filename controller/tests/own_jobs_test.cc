// Submitters and others' jobs, over real sockets.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/admission/access_table.h"
#include "controller/testing/roles_fixture.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job_history.grpc.pb.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

// Status of a method of scope kOwn when a submitter calls it about a job; for a stream, the status
// that it ends with, or OK if it begins.
class OwnScopeTest : public RolesTest {
 protected:
  using Ask = std::function<grpc::Status(const std::string& user, const std::string& job)>;

  // Calls, by method, that take a job.
  std::map<std::string, Ask> Asks() {
    std::map<std::string, Ask> asks;
    const auto add = [&](const std::string& service, auto& stub, const std::string& method,
                         auto call, const auto& request, const auto& reply) {
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
    add("JobService", jobs_, "ChangeLabels", &Jobs::ChangeLabels, v1::ChangeLabelsRequest(),
        v1::Job());
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
    add("TelemetryService", telemetry_, "GetCurves", &Telemetry::GetCurves,
        v1::GetJobCurvesRequest(), v1::JobCurves());
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
    // Starts from its newest checkpoint.
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

  // Sets the fields that the request has, of: job, checkpoint, request id, who applies.
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

  const std::unique_ptr<v1::CheckpointService::Stub> checkpoints_ =
      v1::CheckpointService::NewStub(channel_);
  const std::unique_ptr<v1::JobHistoryService::Stub> histories_ =
      v1::JobHistoryService::NewStub(channel_);
  const std::unique_ptr<v1::TelemetryService::Stub> telemetry_ =
      v1::TelemetryService::NewStub(channel_);
};

// A new method of scope kOwn needs a case here, or in a test of lists below. Code belongs to no job
// yet, so see code_test.cc.
TEST_F(OwnScopeTest, OthersJobsAreNotThereForASubmitter) {
  const std::set<std::string> lists = {
      "/paceline.v1.JobService/List", "/paceline.v1.JobService/UploadCode",
      "/paceline.v1.JobService/Watch", "/paceline.v1.TelemetryService/ListJobs"};
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
  // Others' jobs come between them.
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
    EXPECT_TRUE(v1::TelemetryService::NewStub(channel_)->ListJobs(call, {}, &response).ok());
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
  // Changes somebody else's job, and then one of his.
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

}  // namespace
}  // namespace paceline
