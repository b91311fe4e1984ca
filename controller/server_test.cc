// The controller over real sockets: a server on port 0, clients, and workers played by the test.
#include "controller/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "common/exit_codes.h"
#include "controller/testing/running_server.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// A worker played by the test: one session.
class PlayedWorker {
 public:
  PlayedWorker(const std::shared_ptr<grpc::Channel>& channel, v1::Hello hello)
      : stub_(v1::WorkerService::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->Session(&context_);
    v1::WorkerMessage message;
    *message.mutable_hello() = std::move(hello);
    stream_->Write(message);
  }
  ~PlayedWorker() {
    if (finished_) return;
    context_.TryCancel();
    v1::ControllerMessage message;
    while (stream_->Read(&message)) {
    }
    stream_->Finish();
  }

  // The next message; none when the session has ended.
  std::optional<v1::ControllerMessage> Read() {
    v1::ControllerMessage message;
    if (!stream_->Read(&message)) return std::nullopt;
    return message;
  }
  // Skips to a plan with so many trainers.
  v1::NodePlan ReadPlan(int trainers) {
    while (auto message = Read()) {
      if (message->has_plan() && message->plan().trainers_size() == trainers) {
        return message->plan();
      }
    }
    ADD_FAILURE() << "the session ended without a plan of " << trainers << " trainers";
    return {};
  }
  void Write(const v1::WorkerMessage& message) { stream_->Write(message); }
  void Report(const std::vector<v1::TrainerReport>& trainers) {
    v1::WorkerMessage message;
    message.mutable_report();
    for (const auto& trainer : trainers) *message.mutable_report()->add_trainers() = trainer;
    Write(message);
  }
  // How a session that has ended did so.
  grpc::Status Finish() {
    finished_ = true;
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  bool finished_ = false;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream_;
};

v1::Hello Hello(const std::string& node, int slots = 2, const std::string& uid = "uid") {
  v1::Hello hello;
  hello.set_node(node);
  hello.set_node_uid(uid);
  hello.set_slots(slots);
  hello.set_metrics_address("127.0.0.1:9");
  return hello;
}

v1::JobSpec Spec(int ranks = 1) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_ranks(ranks);
  spec.mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_data()->set_train("/data/train.shard");
  spec.set_steps(10);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_optimizer()->set_learning_rate(0.1);
  return spec;
}

std::string Reason(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&info)) return info.reason();
  }
  return "";
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { Connect(); }

  void Connect() {
    channel_ = server_->Channel();
    jobs_ = v1::JobService::NewStub(channel_);
    nodes_ = v1::NodeService::NewStub(channel_);
  }
  void Restart() {
    server_.reset();
    server_ = std::make_unique<RunningServer>(directory_);
    Connect();
  }

  // A worker whose hello has been taken in.
  std::unique_ptr<PlayedWorker> Join(const v1::Hello& hello) {
    auto worker = std::make_unique<PlayedWorker>(channel_, hello);
    EXPECT_TRUE(worker->Read()->has_welcome());
    EXPECT_TRUE(worker->Read()->has_plan());
    return worker;
  }

  grpc::Status Submit(const v1::JobSpec& spec, const std::string& request_id, v1::Job* job) {
    grpc::ClientContext context;
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    return jobs_->Submit(&context, request, job);
  }
  v1::Job Get(const std::string& reference) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job(reference);
    v1::Job job;
    const grpc::Status status = jobs_->Get(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  // Watches the job until it is in `state`.
  v1::Job WaitFor(const std::string& id, v1::JobState state) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::WatchJobsRequest request;
    request.set_job_id(id);
    auto stream = jobs_->Watch(&context, request);
    v1::JobEvent event;
    while (stream->Read(&event)) {
      if (event.has_job() && event.job().state() == state) {
        context.TryCancel();
        return event.job();
      }
    }
    ADD_FAILURE() << "the job did not become " << v1::JobState_Name(state);
    return {};
  }

  const std::string directory_ = NewDirectory();
  std::unique_ptr<RunningServer> server_ = std::make_unique<RunningServer>(directory_);
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
};

v1::TrainerReport Trainer(const v1::TrainerPlan& plan, v1::TrainerState state) {
  v1::TrainerReport report;
  *report.mutable_id() = plan.id();
  report.set_state(state);
  report.set_pid(1000 + plan.id().rank());
  report.set_store_address("127.0.0.1:" + std::to_string(5000 + plan.id().rank()));
  if (state == v1::TRAINER_EXITED) report.mutable_exit();
  return report;
}

TEST_F(ServerTest, JobRunsFromSubmissionToSuccess) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(2), "r1", &job).ok());
  EXPECT_EQ(job.spec().batch_per_rank(), 32) << "defaults are written in";

  const v1::NodePlan plan = worker->ReadPlan(2);
  EXPECT_EQ(plan.trainers(1).world_size(), 2);
  EXPECT_EQ(plan.trainers(1).spec().name(), "digits");
  worker->Report(
      {Trainer(plan.trainers(0), v1::TRAINER_READY), Trainer(plan.trainers(1), v1::TRAINER_READY)});
  EXPECT_EQ(worker->ReadPlan(2).trainers(1).store_address(), "127.0.0.1:5000");
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING),
                  Trainer(plan.trainers(1), v1::TRAINER_RUNNING)});
  WaitFor(job.id(), v1::RUNNING);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_EXITED),
                  Trainer(plan.trainers(1), v1::TRAINER_EXITED)});
  WaitFor(job.id(), v1::SUCCEEDED);
  worker->ReadPlan(0);
}

TEST_F(ServerTest, SameRequestTwiceMakesOneJobAlsoOverARestart) {
  auto worker = Join(Hello("w0"));
  v1::Job first;
  v1::Job second;
  ASSERT_TRUE(Submit(Spec(), "r1", &first).ok());
  ASSERT_TRUE(Submit(Spec(), "r1", &second).ok());
  EXPECT_EQ(first.id(), second.id());
  worker.reset();
  Restart();
  ASSERT_TRUE(Submit(Spec(), "r1", &second).ok());
  EXPECT_EQ(first.id(), second.id());

  v1::JobSpec other = Spec();
  other.set_steps(11);
  const grpc::Status reused = Submit(other, "r1", &second);
  EXPECT_EQ(reused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(reused), "REQUEST_ID_REUSED");
  EXPECT_EQ(Reason(Submit(Spec(), "", &second)), "REQUEST_ID_INVALID");
}

TEST_F(ServerTest, ImpossibleSpecIsRefusedWithEveryField) {
  auto worker = Join(Hello("w0"));
  v1::JobSpec spec = Spec();
  spec.set_steps(0);
  spec.mutable_optimizer()->set_learning_rate(-1);
  v1::Job job;
  const grpc::Status status = Submit(spec, "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "SPEC_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("steps"));
  EXPECT_THAT(status.error_message(), HasSubstr("optimizer.learning_rate"));
}

TEST_F(ServerTest, JobThatCanNeverFitIsRefusedAndOneThatMustWaitSaysWhatFor) {
  v1::Job job;
  EXPECT_EQ(Reason(Submit(Spec(), "r0", &job)), "JOB_CANNOT_FIT");
  auto worker = Join(Hello("w0", /*slots=*/2));
  const grpc::Status status = Submit(Spec(3), "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "JOB_CANNOT_FIT");
  ASSERT_TRUE(Submit(Spec(2), "r2", &job).ok());
  ASSERT_TRUE(Submit(Spec(1), "r3", &job).ok());
  EXPECT_EQ(job.state(), v1::QUEUED);
  EXPECT_THAT(job.reason(), HasSubstr("waits for 1 slot: 0 free now"));
}

TEST_F(ServerTest, JobsAreFoundByIdPrefixAndName) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  EXPECT_EQ(Get(job.id()).id(), job.id());
  EXPECT_EQ(Get(job.id().substr(0, 8)).id(), job.id());
  EXPECT_EQ(Get("digits").id(), job.id());
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_job("absent");
  const grpc::Status status = jobs_->Get(&context, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Reason(status), "JOB_NOT_FOUND");
}

TEST_F(ServerTest, ListComesInPagesNewestFirst) {
  auto worker = Join(Hello("w0"));
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    v1::Job job;
    ASSERT_TRUE(Submit(Spec(), "r" + std::to_string(i), &job).ok());
    ids.push_back(job.id());
  }
  std::vector<std::string> listed;
  v1::ListJobsRequest request;
  request.set_page_size(2);
  do {
    grpc::ClientContext context;
    v1::ListJobsResponse response;
    ASSERT_TRUE(jobs_->List(&context, request, &response).ok());
    EXPECT_LE(response.jobs_size(), 2);
    for (const auto& job : response.jobs()) listed.push_back(job.id());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(listed, ::testing::ElementsAre(ids[2], ids[1], ids[0]));

  for (const auto& [size, token, reason] :
       {std::tuple(-1, "", "PAGE_SIZE_INVALID"), std::tuple(1, "x", "PAGE_TOKEN_INVALID")}) {
    request.set_page_size(size);
    request.set_page_token(token);
    grpc::ClientContext context;
    v1::ListJobsResponse response;
    EXPECT_EQ(Reason(jobs_->List(&context, request, &response)), reason);
  }
}

TEST_F(ServerTest, WatchResumesWhereItWasAndSaysWhenItCannot) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  int64_t revision = 0;
  {
    grpc::ClientContext context;
    auto stream = jobs_->Watch(&context, v1::WatchJobsRequest());
    v1::JobEvent event;
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.type(), v1::ADDED);
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.type(), v1::BOOKMARK);
    revision = event.revision();
    context.TryCancel();
  }
  // Missed while nobody watched:
  ASSERT_TRUE(Submit(Spec(2), "r2", &job).ok());
  v1::WatchJobsRequest resume;
  resume.set_after_revision(revision);
  {
    grpc::ClientContext context;
    auto stream = jobs_->Watch(&context, resume);
    v1::JobEvent event;
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.type(), v1::ADDED);
    EXPECT_EQ(event.job().id(), job.id());
    EXPECT_GT(event.revision(), revision);
    context.TryCancel();
  }
  Restart();
  grpc::ClientContext context;
  auto stream = jobs_->Watch(&context, resume);
  v1::JobEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Reason(status), "REVISION_COMPACTED");
}

TEST_F(ServerTest, CancelStopsTheTrainersThroughThePlan) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  worker->ReadPlan(1);
  v1::CancelJobRequest request;
  request.set_job(job.id());
  request.set_request_id("c1");
  request.set_grace_s(7);
  request.set_reason("enough");
  grpc::ClientContext context;
  ASSERT_TRUE(jobs_->Cancel(&context, request, &job).ok());
  EXPECT_EQ(job.state(), v1::STOPPING);
  const v1::NodePlan plan = worker->ReadPlan(1);
  EXPECT_EQ(plan.trainers(0).stop().grace_s(), 7);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_EXITED)});
  EXPECT_EQ(WaitFor(job.id(), v1::CANCELLED).reason(), "enough");
}

TEST_F(ServerTest, LogIsPulledFromTheNodePartByPart) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  worker->ReadPlan(1);
  grpc::ClientContext context;
  v1::StreamLogsRequest request;
  request.set_job(job.id());
  request.set_tail_lines(5);
  request.set_follow(true);
  auto stream = jobs_->StreamLogs(&context, request);

  v1::ControllerMessage asked = *worker->Read();
  ASSERT_TRUE(asked.has_log_request()) << asked.DebugString();
  EXPECT_EQ(asked.log_request().tail_lines(), 5);
  v1::WorkerMessage answer;
  answer.mutable_log()->set_id(asked.log_request().id());
  answer.mutable_log()->set_offset(100);
  answer.mutable_log()->set_data("hello\n");
  worker->Write(answer);
  v1::LogChunk chunk;
  ASSERT_TRUE(stream->Read(&chunk));
  EXPECT_EQ(chunk.offset(), 100);
  EXPECT_EQ(chunk.data(), "hello\n");

  asked = *worker->Read();
  EXPECT_EQ(asked.log_request().offset(), 106);
  EXPECT_EQ(asked.log_request().tail_lines(), 0);
  answer.mutable_log()->set_id(asked.log_request().id());
  answer.mutable_log()->set_offset(106);
  answer.mutable_log()->clear_data();
  answer.mutable_log()->set_end(true);
  worker->Write(answer);
  EXPECT_FALSE(stream->Read(&chunk));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServerTest, LogReaderLearnsThatTheNodeIsAway) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  worker.reset();
  grpc::Status status;
  // The session's end and the request race: either way the reason is the same.
  grpc::ClientContext context;
  v1::StreamLogsRequest request;
  request.set_job(job.id());
  auto stream = jobs_->StreamLogs(&context, request);
  v1::LogChunk chunk;
  EXPECT_FALSE(stream->Read(&chunk));
  EXPECT_EQ(Reason(stream->Finish()), "NODE_UNREACHABLE");
}

TEST_F(ServerTest, ImpostorAndStrangerAreRefused) {
  auto worker = Join(Hello("w0", 2, "one"));
  PlayedWorker impostor(channel_, Hello("w0", 2, "two"));
  EXPECT_FALSE(impostor.Read().has_value());
  EXPECT_EQ(Reason(impostor.Finish()), "NODE_NAME_TAKEN");

  v1::Hello stranger = Hello("w1");
  stranger.set_cluster_id("another");
  PlayedWorker wrong(channel_, stranger);
  EXPECT_FALSE(wrong.Read().has_value());
  EXPECT_EQ(Reason(wrong.Finish()), "WRONG_CLUSTER");
}

TEST_F(ServerTest, WorkerThatConnectsAgainReplacesItsOldSession) {
  auto first = Join(Hello("w0"));
  auto second = Join(Hello("w0"));
  EXPECT_FALSE(first->Read().has_value());
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  second->ReadPlan(1);
}

TEST_F(ServerTest, HttpTellsMetricsHealthAndTargets) {
  auto worker = Join(Hello("w0"));
  httplib::Client http("http://" + server_->Address("http"));
  EXPECT_EQ(http.Get("/healthz")->status, 200);
  EXPECT_EQ(http.Get("/readyz")->status, 200);
  EXPECT_THAT(http.Get("/metrics")->body, HasSubstr("paceline_nodes{state=\"ready\"} 1"));
  const auto targets = nlohmann::json::parse(http.Get("/sd")->body);
  EXPECT_EQ(targets[0]["targets"][0], "127.0.0.1:9");
}

TEST(ServerStartTest, EachObstacleHasItsExitCodeAndNamesItself) {
  const std::string directory = NewDirectory();
  RunningServer first(directory);
  EXPECT_EQ(RunningServer(directory).failure().exit_code, kExitStateInUse);
  EXPECT_EQ(RunningServer(NewDirectory(), first.Address("grpc")).failure().exit_code,
            kExitCannotListen);

  const std::string file = NewDirectory() + "/file";
  std::ofstream(file) << "x";
  RunningServer unwritable(file + "/state");
  EXPECT_EQ(unwritable.failure().exit_code, kExitStateNotWritable);
  EXPECT_THAT(std::string(unwritable.failure().status.message()), HasSubstr(file));

  const std::string damaged = NewDirectory();
  std::ofstream(damaged + "/state.db") << std::string(5000, 'x');
  EXPECT_EQ(RunningServer(damaged).failure().exit_code, kExitStateDamaged);
}

}  // namespace
}  // namespace paceline
