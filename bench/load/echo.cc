#include "bench/load/echo.h"

#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/load/simulated_trainers.h"
#include "common/event_loop.h"
#include "common/tls/credentials.h"
#include "common/tls/tls_files.h"
#include "proto/job.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr int kRanks = 8;  // Ranks in the report.

class EchoStream : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage> {
 public:
  EchoStream() { StartRead(&incoming_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    outgoing_.mutable_lease()->set_report_number(incoming_.report().number());
    StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&incoming_);
  }
  void OnDone() override { delete this; }

  v1::WorkerMessage incoming_;
  v1::ControllerMessage outgoing_;
};

class EchoSessions : public v1::WorkerService::CallbackService {
  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* Session(
      grpc::CallbackServerContext*) override {
    return new EchoStream();
  }
};

class EchoJobs : public v1::JobService::CallbackService {
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetJobRequest*,
                                v1::Job*) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// A report like those of the load's nodes.
v1::WorkerMessage MakeReport() {
  v1::NodePlan plan;
  for (int rank = 0; rank < kRanks; ++rank) {
    v1::TrainerPlan& trainer = *plan.add_trainers();
    trainer.mutable_id()->set_job_id("job-0123456789ab");
    trainer.mutable_id()->set_generation(1);
    trainer.mutable_id()->set_rank(rank);
    trainer.mutable_spec()->set_steps(1'000'000);
    trainer.mutable_membership()->set_store_address("127.0.0.1:1");
    trainer.mutable_membership()->set_generation(1);
  }
  SimulatedTrainers trainers(/*steps_per_second=*/10);
  const absl::Time begun = EventLoop::Now();
  trainers.SetPlan(plan, begun);
  for (const int seconds : {1, 2, 10}) trainers.Advance(begun + absl::Seconds(seconds));
  v1::WorkerMessage message;
  trainers.Report(begun + absl::Seconds(10), message.mutable_report());
  return message;
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// Credentials of a server whose clients need certificates, like the controller's.
std::shared_ptr<grpc::ServerCredentials> EchoCredentials(const std::string& pki) {
  if (pki.empty()) return grpc::InsecureServerCredentials();
  return ServerCredentials(FilesIn(pki + "/controller"), /*require_client_certificate=*/true);
}

}  // namespace

int ServeEcho(const std::string& pki) {
  EchoSessions sessions;
  EchoJobs jobs;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", EchoCredentials(pki), &port);
  builder.RegisterService(&sessions);
  builder.RegisterService(&jobs);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    std::cerr << "cannot listen" << std::endl;
    return 1;
  }
  nlohmann::json address;
  address["echo"] = absl::StrCat("127.0.0.1:", port);
  std::cout << address << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  server->Shutdown(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  return 0;
}

void Pings::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Pings::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Pings::Run() {
  const auto jobs = v1::JobService::NewStub(MakeChannel(server_, credentials_));
  const auto workers = v1::WorkerService::NewStub(MakeChannel(server_, credentials_));
  v1::WorkerMessage message = MakeReport();
  v1::GetJobRequest request;
  request.set_job("job-0123456789ab");
  grpc::ClientContext stream_context;
  const auto stream = workers->Session(&stream_context);
  for (int64_t number = 1; !stopping_; ++number) {
    message.mutable_report()->set_number(number);
    absl::Time begun = EventLoop::Now();
    v1::ControllerMessage answer;
    if (!stream->Write(message) || !stream->Read(&answer)) break;
    streaming_.Add(EventLoop::Now() - begun);

    grpc::ClientContext context;
    v1::Job job;
    begun = EventLoop::Now();
    if (jobs->Get(&context, request, &job).ok()) unary_.Add(EventLoop::Now() - begun);
    absl::SleepFor(kPause);
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  if (!status.ok()) std::cerr << "ping: " << status.error_message() << std::endl;
}

}  // namespace paceline
