// The controller over real sockets: a server on port 0, clients, and workers played by the test.
#include "controller/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "common/version.h"
#include "controller/testing/running_server.h"
#include "controller/testing/server_fixture.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

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

TEST_F(ServerTest, AModelThatNoDeviceHoldsIsRefused) {
  v1::Hello hello = Hello("w0");
  hello.mutable_hardware()->add_gpus("H100");
  hello.mutable_hardware()->add_gpu_memory_bytes(int64_t{80} << 30);
  auto worker = Join(hello);
  v1::JobSpec spec = Spec();
  spec.set_device(v1::CUDA);
  spec.mutable_model()->mutable_llama()->set_preset(v1::LLAMA_PRESET_70B);
  v1::Job job;
  const grpc::Status status = Submit(spec, "r1", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "JOB_CANNOT_FIT");
  EXPECT_THAT(status.error_message(), HasSubstr("no GPU where the job may run has more than 80.0"));
  // The store keeps what a node has.
  worker.reset();
  Restart();
  EXPECT_EQ(Reason(Submit(spec, "r2", &job)), "JOB_CANNOT_FIT");
  spec.mutable_model()->mutable_llama()->set_preset(v1::LLAMA_PRESET_DEBUG);
  EXPECT_TRUE(Submit(spec, "r3", &job).ok());
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

  v1::WhyRequest request;
  request.set_job(job.id());
  v1::WhyResponse why;
  grpc::ClientContext context;
  ASSERT_TRUE(jobs_->Why(&context, request, &why).ok());
  ASSERT_GE(why.obstacles_size(), 1);
  EXPECT_EQ(why.obstacles(0),
            "It needs 1 slot: 0 are free and 2 held by jobs, of those that it may use.");
}

TEST_F(ServerTest, JobOfAnUnknownQueueIsRefusedAndTheQueuesAreNamed) {
  auto worker = Join(Hello("w0", /*slots=*/2));
  v1::JobSpec spec = Spec();
  spec.set_queue("nowhere");
  v1::Job job;
  const grpc::Status status = Submit(spec, "r0", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "QUEUE_UNKNOWN");
  EXPECT_THAT(status.error_message(), HasSubstr("submit to one of default"));
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
  // Happens while nobody watches.
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

TEST_F(ServerTest, WatcherOfAJobHearsOfItsNewestProgressThoughReportsComeQuickly) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  v1::TrainerReport trainer = Trainer(worker->ReadPlan(1).trainers(0), v1::TRAINER_READY);
  worker->Report({trainer});
  trainer.set_state(v1::TRAINER_RUNNING);
  worker->Report({trainer});
  WaitFor(job.id(), v1::RUNNING);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  auto stream = jobs_->Watch(&context, v1::WatchJobsRequest());
  v1::JobEvent event;
  while (stream->Read(&event) && event.type() != v1::BOOKMARK) {
  }
  constexpr int kSteps = 9;
  for (int step = 1; step <= kSteps; ++step) {
    trainer.mutable_progress()->set_step(step);
    worker->Report({trainer});
  }
  while (event.job().progress().step() < kSteps && stream->Read(&event)) {
  }
  EXPECT_EQ(event.job().progress().step(), kSteps);
  context.TryCancel();
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
  request.set_since_s(60);
  request.set_follow(true);
  auto stream = jobs_->StreamLogs(&context, request);

  v1::ControllerMessage asked = *worker->Read();
  ASSERT_TRUE(asked.has_log_request()) << asked.DebugString();
  EXPECT_EQ(asked.log_request().tail_lines(), 5);
  EXPECT_EQ(asked.log_request().since_s(), 60);
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
  EXPECT_EQ(asked.log_request().since_s(), 0);
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
  // The session's end and the request race; the reason is the same in both cases.
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

TEST_F(ServerTest, WorkersOfLaterReleasesWaitForAControllerOfTheirs) {
  v1::Hello hello = Hello("w0");
  hello.set_version("1000.0.0");
  PlayedWorker newer(channel_, hello);
  EXPECT_FALSE(newer.Read().has_value());
  const grpc::Status refused = newer.Finish();
  EXPECT_EQ(Reason(refused), "WORKER_IS_NEWER");
  EXPECT_THAT(refused.error_message(), HasSubstr("\"w0\""));
  EXPECT_THAT(refused.error_message(), HasSubstr("upgrade the controller first"));
  for (const char* known : {kVersion, "0.0.1", ""}) {
    hello.set_version(known);
    Join(hello);
  }
}

TEST_F(ServerTest, WorkerThatConnectsAgainReplacesItsOldSession) {
  auto first = Join(Hello("w0"));
  auto second = Join(Hello("w0"));
  EXPECT_FALSE(first->Read().has_value());
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  second->ReadPlan(1);
}

TEST_F(ServerTest, RecordsThatADaemonHasLostCountOnceInAllItsSessions) {
  const auto tell = [&](const v1::Hello& hello, int64_t dropped, const std::string& counted) {
    auto worker = Join(hello);
    v1::WorkerMessage message;
    message.mutable_steps()->set_dropped(dropped);
    worker->Write(message);
    ReadMetrics("\npaceline_telemetry_dropped_total " + counted + "\n");
  };
  v1::Hello hello = Hello("w0");
  hello.set_daemon_uid("d1");
  tell(hello, 100, "100");
  tell(hello, 130, "130");
  hello.set_daemon_uid("d2");
  tell(hello, 7, "137");
  // Another controller counts what the daemon does not know to have arrived.
  Restart();
  hello.set_dropped_confirmed(5);
  tell(hello, 7, "2");
}

TEST_F(ServerTest, HttpTellsMetricsHealthAndTargets) {
  auto worker = Join(Hello("w0"));
  httplib::Client http("http://" + server_->Address("http"));
  EXPECT_EQ(http.Get("/healthz")->status, 200);
  EXPECT_EQ(http.Get("/readyz")->status, 200);
  ReadMetrics("paceline_node_state{node=\"w0\",state=\"ready\"} 1");
  ReadMetrics("\npaceline_controller_leader 1\n");
  const auto targets = nlohmann::json::parse(http.Get("/sd")->body);
  EXPECT_EQ(targets[0]["targets"][0], "127.0.0.1:9");
}

}  // namespace
}  // namespace paceline
