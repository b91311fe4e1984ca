#include "controller/testing/server_fixture.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <httplib.h>

#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {

struct PlayedWorker::Session {
  std::unique_ptr<v1::WorkerService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream;
};

PlayedWorker::PlayedWorker(const std::shared_ptr<grpc::Channel>& channel, v1::Hello hello)
    : session_(std::make_unique<Session>()) {
  session_->stub = v1::WorkerService::NewStub(channel);
  session_->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  session_->stream = session_->stub->Session(&session_->context);
  v1::WorkerMessage message;
  *message.mutable_hello() = std::move(hello);
  session_->stream->Write(message);
}

PlayedWorker::~PlayedWorker() {
  if (finished_) return;
  session_->context.TryCancel();
  v1::ControllerMessage message;
  while (session_->stream->Read(&message)) {
  }
  session_->stream->Finish();
}

std::optional<v1::ControllerMessage> PlayedWorker::Read() {
  v1::ControllerMessage message;
  do {
    if (!session_->stream->Read(&message)) return std::nullopt;
  } while (message.has_lease());
  return message;
}

bool PlayedWorker::ReadAnswer(int64_t report) {
  v1::ControllerMessage message;
  while (session_->stream->Read(&message)) {
    if (message.has_lease() && message.lease().report_number() == report) return true;
  }
  return false;
}

v1::NodePlan PlayedWorker::ReadPlan(int trainers) {
  while (auto message = Read()) {
    if (message->has_plan() && message->plan().trainers_size() == trainers) {
      return message->plan();
    }
  }
  ADD_FAILURE() << "the session ended without a plan of " << trainers << " trainers";
  return {};
}

v1::NodePlan PlayedWorker::ReadUntil(const std::function<bool(const v1::NodePlan&)>& holds) {
  while (auto message = Read()) {
    if (message->has_plan() && holds(message->plan())) return message->plan();
  }
  ADD_FAILURE() << "the session ended without the plan that was waited for";
  return {};
}

void PlayedWorker::Write(const v1::WorkerMessage& message) { session_->stream->Write(message); }

void PlayedWorker::Report(const std::vector<v1::TrainerReport>& trainers) {
  v1::WorkerMessage message;
  message.mutable_report();
  for (const auto& trainer : trainers) *message.mutable_report()->add_trainers() = trainer;
  Write(message);
}

grpc::Status PlayedWorker::Finish() {
  finished_ = true;
  return session_->stream->Finish();
}

v1::Hello Hello(const std::string& node, int slots, const std::string& uid) {
  v1::Hello hello;
  hello.set_node(node);
  hello.set_node_uid(uid);
  hello.set_slots(slots);
  hello.set_metrics_address("127.0.0.1:9");
  return hello;
}

v1::JobSpec Spec(int ranks) {
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

v1::TrainerReport Trainer(const v1::TrainerPlan& plan, v1::TrainerState state) {
  v1::TrainerReport report;
  *report.mutable_id() = plan.id();
  report.set_state(state);
  report.set_pid(1000 + plan.id().rank());
  report.set_store_address("127.0.0.1:" + std::to_string(5000 + plan.id().rank()));
  if (state == v1::TRAINER_EXITED) report.mutable_exit();
  return report;
}

ServerTest::ServerTest() { Connect(); }

void ServerTest::Connect() {
  channel_ = server_->Channel();
  jobs_ = v1::JobService::NewStub(channel_);
}

void ServerTest::Restart() {
  server_.reset();
  server_ = std::make_unique<RunningServer>(directory_);
  Connect();
}

std::unique_ptr<PlayedWorker> ServerTest::Join(const v1::Hello& hello) {
  auto worker = std::make_unique<PlayedWorker>(channel_, hello);
  EXPECT_TRUE(worker->Read()->has_welcome());
  EXPECT_TRUE(worker->Read()->has_plan());
  return worker;
}

grpc::Status ServerTest::Submit(const v1::JobSpec& spec, const std::string& request_id,
                                v1::Job* job) {
  grpc::ClientContext context;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  return jobs_->Submit(&context, request, job);
}

v1::Job ServerTest::Get(const std::string& reference) {
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_job(reference);
  v1::Job job;
  const grpc::Status status = jobs_->Get(&context, request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

v1::Job ServerTest::WaitFor(const std::string& id, v1::JobState state) {
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

std::string ServerTest::ReadMetrics(const std::string& wanted) {
  httplib::Client client("http://" + server_->Address("http"));
  std::string body;
  for (int i = 0; i < 1000; ++i) {
    body = client.Get("/metrics")->body;
    if (body.find(wanted) != std::string::npos) return body;
    absl::SleepFor(absl::Milliseconds(5));
  }
  ADD_FAILURE() << "no " << wanted << " in the metrics";
  return body;
}

}  // namespace paceline
