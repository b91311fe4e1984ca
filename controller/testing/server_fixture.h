// A controller over real sockets, its clients, and workers played by the test.
#ifndef CONTROLLER_TESTING_SERVER_FIXTURE_H_
#define CONTROLLER_TESTING_SERVER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "controller/testing/running_server.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/checkpoint.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {

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

  // The next message that is no answer to a report: those come at any time. None when the session
  // has ended.
  std::optional<v1::ControllerMessage> Read() {
    v1::ControllerMessage message;
    do {
      if (!stream_->Read(&message)) return std::nullopt;
    } while (message.has_lease());
    return message;
  }
  // Skips to the answer to the report of that number. False: the session has ended.
  bool ReadAnswer(int64_t report) {
    v1::ControllerMessage message;
    while (stream_->Read(&message)) {
      if (message.has_lease() && message.lease().report_number() == report) return true;
    }
    return false;
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
  // Skips to a plan that `holds`.
  v1::NodePlan ReadUntil(const std::function<bool(const v1::NodePlan&)>& holds) {
    while (auto message = Read()) {
      if (message->has_plan() && holds(message->plan())) return message->plan();
    }
    ADD_FAILURE() << "the session ended without the plan that was waited for";
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

inline v1::Hello Hello(const std::string& node, int slots = 2, const std::string& uid = "uid") {
  v1::Hello hello;
  hello.set_node(node);
  hello.set_node_uid(uid);
  hello.set_slots(slots);
  hello.set_metrics_address("127.0.0.1:9");
  return hello;
}

inline v1::JobSpec Spec(int ranks = 1) {
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

inline std::string Reason(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&info)) return info.reason();
  }
  return "";
}

inline v1::TrainerReport Trainer(const v1::TrainerPlan& plan, v1::TrainerState state) {
  v1::TrainerReport report;
  *report.mutable_id() = plan.id();
  report.set_state(state);
  report.set_pid(1000 + plan.id().rank());
  report.set_store_address("127.0.0.1:" + std::to_string(5000 + plan.id().rank()));
  if (state == v1::TRAINER_EXITED) report.mutable_exit();
  return report;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { Connect(); }

  void Connect() {
    channel_ = server_->Channel();
    jobs_ = v1::JobService::NewStub(channel_);
    nodes_ = v1::NodeService::NewStub(channel_);
    checkpoints_ = v1::CheckpointService::NewStub(channel_);
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

  // The controller's metrics once they hold `wanted`: what is stored is shown, and a bit later.
  std::string ReadMetrics(const std::string& wanted) {
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

  const std::string directory_ = NewDirectory();
  std::unique_ptr<RunningServer> server_ = std::make_unique<RunningServer>(directory_);
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::unique_ptr<v1::CheckpointService::Stub> checkpoints_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_SERVER_FIXTURE_H_
