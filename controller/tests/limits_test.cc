// How the controller treats clients that ask for too much, or too slowly.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/user_metadata.h"
#include "controller/api/admission/worker_messages.h"
#include "controller/server.h"
#include "controller/testing/running_server.h"
#include "controller/testing/server_fixture.h"
#include "proto/job.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

// A watch of all jobs.
class Watch {
 public:
  explicit Watch(v1::JobService::Stub& jobs) {
    context_.set_deadline(std::chrono::system_clock::now() + kLong);
    stream_ = jobs.Watch(&context_, {});
  }
  ~Watch() {
    if (!ended_) End();
  }

  // Whether it is open: reads one message.
  bool Read() {
    v1::JobEvent event;
    return stream_->Read(&event);
  }
  // The status with which the controller ended it.
  grpc::Status Refusal() {
    ended_ = true;
    return stream_->Finish();
  }
  grpc::Status End() {
    ended_ = true;
    context_.TryCancel();
    while (Read()) {
    }
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  bool ended_ = false;
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> stream_;
};

class LimitsTest : public ::testing::Test {
 protected:
  void Serve(const std::function<void(ServerOptions&)>& change) {
    const std::string directory = NewDirectory();
    ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory, directory + "/address", "", {}};
    options.plaintext = true;
    change(options);
    server_ = std::make_unique<RunningServer>(options);
    ASSERT_TRUE(server_->failure().status.ok()) << server_->failure().status;
    channel_ = server_->Channel();
    jobs_ = v1::JobService::NewStub(channel_);
  }

  std::unique_ptr<PlayedWorker> Join(const v1::Hello& hello) {
    auto worker = std::make_unique<PlayedWorker>(channel_, hello);
    EXPECT_TRUE(worker->Read()->has_welcome());
    EXPECT_TRUE(worker->Read()->has_plan());
    return worker;
  }

  grpc::Status Submit(const v1::JobSpec& spec, v1::Job* job, const std::string& user = "") {
    grpc::ClientContext context;
    if (!user.empty()) context.AddMetadata(kUserMetadata, user);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(absl::StrCat("request-", ++requests_));
    return jobs_->Submit(&context, request, job);
  }
  grpc::Status CancelUnknown() {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job("job-none");
    request.set_request_id(absl::StrCat("request-", ++requests_));
    v1::Job job;
    return jobs_->Cancel(&context, request, &job);
  }

  // How often the limit has refused or ended something, as text.
  std::string Refused(const char* limit) {
    const std::string series =
        absl::StrCat("\npaceline_limit_refusals_total{limit=\"", limit, "\"} ");
    const auto answer = httplib::Client("http://" + server_->Address("http")).Get("/metrics");
    if (!answer) return "no answer";
    const size_t at = answer->body.find(series);
    if (at == std::string::npos) return "no series";
    const size_t begin = at + series.size();
    return answer->body.substr(begin, answer->body.find('\n', begin) - begin);
  }

  // Tries until a watch is admitted: ended ones are forgotten with a delay.
  bool CanWatch() {
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (std::chrono::steady_clock::now() < until) {
      if (Watch(*jobs_).Read()) return true;
    }
    return false;
  }

  int requests_ = 0;
  std::unique_ptr<RunningServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

TEST_F(LimitsTest, StreamsOfACallerAreBounded) {
  Serve([](ServerOptions& options) { options.limits.streams_per_caller = 2; });
  Watch first(*jobs_);
  Watch second(*jobs_);
  ASSERT_TRUE(first.Read());
  ASSERT_TRUE(second.Read());
  Watch third(*jobs_);
  EXPECT_FALSE(third.Read());
  const grpc::Status refused = third.Refusal();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "TOO_MANY_STREAMS");
  EXPECT_EQ(Refused("streams_per_caller"), "1");
  EXPECT_EQ(Refused("streams"), "0");
  first.End();
  EXPECT_TRUE(CanWatch());
}

TEST_F(LimitsTest, AllStreamsAreBounded) {
  Serve([](ServerOptions& options) { options.limits.streams = 1; });
  Watch first(*jobs_);
  ASSERT_TRUE(first.Read());
  Watch second(*jobs_);
  EXPECT_FALSE(second.Read());
  EXPECT_EQ(Reason(second.Refusal()), "TOO_MANY_STREAMS");
  EXPECT_EQ(Refused("streams"), "1");
}

TEST_F(LimitsTest, MutationsOfACallerAreBounded) {
  Serve([](ServerOptions& options) {
    options.limits.mutations_per_s = 1e-6;
    options.limits.mutation_burst = 2;
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(CancelUnknown().error_code(), grpc::StatusCode::NOT_FOUND);
  }
  const grpc::Status refused = CancelUnknown();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "TOO_MANY_REQUESTS");
  EXPECT_EQ(Refused("mutation_rate"), "1");
  // Callers who only read are not affected.
  grpc::ClientContext context;
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(jobs_->List(&context, {}, &jobs).ok());
}

TEST_F(LimitsTest, JobsThatHaveNotEndedAreBounded) {
  Serve([](ServerOptions& options) { options.cluster.open_jobs = 1; });
  const auto worker = Join(Hello("a"));
  v1::Job job;
  const grpc::Status first = Submit(Spec(), &job);
  ASSERT_TRUE(first.ok()) << first.error_message();
  const grpc::Status second = Submit(Spec(), &job);
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(second), "TOO_MANY_JOBS");
  EXPECT_EQ(Refused("open_jobs"), "1");
}

TEST_F(LimitsTest, JobsOfASubmitterAreBounded) {
  Serve([](ServerOptions& options) { options.cluster.open_jobs_per_submitter = 1; });
  const auto worker = Join(Hello("a"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), &job, "ann").ok());
  const grpc::Status second = Submit(Spec(), &job, "ann");
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(second), "TOO_MANY_OWN_JOBS");
  EXPECT_EQ(Refused("open_jobs_per_submitter"), "1");
  const grpc::Status others = Submit(Spec(), &job, "bob");
  EXPECT_TRUE(others.ok()) << others.error_message();
}

TEST_F(LimitsTest, RequestOfTooManyBytesIsRefused) {
  Serve([](ServerOptions&) {});
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_train(std::string(17 << 20, 'x'));
  v1::Job job;
  EXPECT_EQ(Submit(spec, &job).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  spec.mutable_data()->set_train(std::string(1 << 20, 'x'));
  EXPECT_EQ(Reason(Submit(spec, &job)), "SPEC_INVALID");
  EXPECT_EQ(Refused("job_size"), "1");
}

TEST_F(LimitsTest, RequestWithTooLongATextIsRefused) {
  Serve([](ServerOptions&) {});
  grpc::ClientContext context;
  v1::ResumeJobRequest request;
  request.set_request_id("resume");
  request.set_from("/" + std::string(1 << 20, 'x'));
  v1::Job job;
  const grpc::Status refused = jobs_->Resume(&context, request, &job);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(refused), "REQUEST_INVALID");
  EXPECT_EQ(Refused("request_size"), "1");
  EXPECT_EQ(Refused("job_size"), "0");
}

TEST_F(LimitsTest, ReaderThatNeverReadsLosesItsStream) {
  Serve([](ServerOptions& options) {
    options.limits.streams = 1;
    options.limits.stream_patience = absl::Milliseconds(100);
  });
  const auto worker = Join(Hello("a"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), &job).ok());
  const v1::NodePlan plan = worker->ReadPlan(1);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING)});

  // The log always has more to read.
  std::thread writer([&] {
    while (const auto message = worker->Read()) {
      if (!message->has_log_request()) continue;
      v1::WorkerMessage log;
      log.mutable_log()->set_id(message->log_request().id());
      log.mutable_log()->set_offset(message->log_request().offset());
      log.mutable_log()->set_data(std::string(64 << 10, 'x'));
      worker->Write(log);
    }
  });
  grpc::ClientContext context;
  v1::StreamLogsRequest wanted;
  wanted.set_job(job.id());
  const auto logs = jobs_->StreamLogs(&context, wanted);
  v1::LogChunk chunk;
  EXPECT_TRUE(logs->Read(&chunk));
  // Another stream only has room once this one was given up.
  EXPECT_TRUE(CanWatch());
  while (logs->Read(&chunk)) {
  }
  EXPECT_EQ(logs->Finish().error_code(), grpc::StatusCode::CANCELLED);
  int given_up = 0;
  EXPECT_TRUE(absl::SimpleAtoi(Refused("slow_reader"), &given_up));
  EXPECT_GE(given_up, 1);
  server_.reset();
  writer.join();
}

TEST_F(LimitsTest, LogReadersOfANodeAreBounded) {
  constexpr int kMost = 128;  // Streams per caller.
  Serve([](ServerOptions&) {});
  const auto worker = Join(Hello("a"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), &job).ok());
  const v1::NodePlan plan = worker->ReadPlan(1);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING)});
  while (job.state() != v1::RUNNING) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job(job.id());
    ASSERT_TRUE(jobs_->Get(&context, request, &job).ok());
  }
  // The worker never answers them.
  v1::StreamLogsRequest wanted;
  wanted.set_job(job.id());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::LogChunk>>> readers;
  for (int i = 0; i <= kMost; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + kLong);
    readers.push_back(jobs_->StreamLogs(contexts.back().get(), wanted));
  }
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (Refused("log_readers") == "0" && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_EQ(Refused("log_readers"), "1");
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& reader : readers) {
    v1::LogChunk chunk;
    EXPECT_FALSE(reader->Read(&chunk));
    reader->Finish();
  }
}

TEST_F(LimitsTest, SessionWithoutAHelloIsEnded) {
  Serve([](ServerOptions& options) { options.limits.hello_patience = absl::Milliseconds(50); });
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  const auto session = stub->Session(&context);
  v1::ControllerMessage message;
  EXPECT_FALSE(session->Read(&message));
  EXPECT_EQ(Reason(session->Finish()), "NO_HELLO");
  EXPECT_EQ(Refused("session_hello"), "1");
}

TEST_F(LimitsTest, SessionWithAHelloStays) {
  Serve([](ServerOptions& options) { options.limits.hello_patience = absl::Milliseconds(50); });
  const auto worker = Join(Hello("a"));
  // Once the patience for a later session is over, that for this one is, too.
  const auto stub = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  const auto silent = stub->Session(&context);
  v1::ControllerMessage message;
  EXPECT_FALSE(silent->Read(&message));
  silent->Finish();
  v1::Job job;
  EXPECT_TRUE(Submit(Spec(), &job).ok());
  EXPECT_EQ(worker->ReadPlan(1).trainers_size(), 1);
}

TEST_F(LimitsTest, NodeThatCannotBeIsRefused) {
  Serve([](ServerOptions&) {});
  v1::Hello huge = Hello("a");
  huge.set_slots(kMaxNodeSlots + 1);
  PlayedWorker worker(channel_, huge);
  EXPECT_FALSE(worker.Read().has_value());
  EXPECT_EQ(Reason(worker.Finish()), "HELLO_INVALID");
  EXPECT_EQ(Refused("node_size"), "1");
}

v1::WorkerMessage Steps(int records) {
  v1::WorkerMessage message;
  v1::StepBatch& batch = *message.mutable_steps()->add_batches();
  for (int i = 0; i < records; ++i) batch.add_records();
  return message;
}

TEST_F(LimitsTest, MessageThatWouldTakeMuchMemoryIsNotParsed) {
  Serve([](ServerOptions&) {});
  PlayedWorker worker(channel_, Hello("a"));
  ASSERT_TRUE(worker.Read().has_value());
  worker.Write(Steps(300'000));  // 600 kB.
  while (worker.Read().has_value()) {
  }
  EXPECT_EQ(Reason(worker.Finish()), "MESSAGE_TOO_LARGE");
  EXPECT_EQ(Refused("worker_message"), "1");
}

TEST_F(LimitsTest, StepsOfAMessageAreBounded) {
  Serve([](ServerOptions&) {});
  PlayedWorker worker(channel_, Hello("a"));
  worker.Write(Steps(kMaxStepsReported));
  v1::WorkerMessage report;
  report.mutable_report()->set_number(7);
  worker.Write(report);
  EXPECT_TRUE(worker.ReadAnswer(7));
  worker.Write(Steps(kMaxStepsReported + 1));
  while (worker.Read().has_value()) {
  }
  EXPECT_EQ(Reason(worker.Finish()), "TOO_MANY_STEPS");
  EXPECT_EQ(Refused("worker_message"), "1");
}

TEST_F(LimitsTest, WhatIsNoMessageEndsTheSession) {
  Serve([](ServerOptions&) {});
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, "/paceline.v1.WorkerService/Session", &queue);
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return ok;
  };
  stream->StartCall(nullptr);
  EXPECT_TRUE(next());
  const grpc::Slice garbage("\xff\xff\xff");
  stream->Write(grpc::ByteBuffer(&garbage, 1), nullptr);
  EXPECT_TRUE(next());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  EXPECT_TRUE(next());
  EXPECT_EQ(Reason(status), "REQUEST_MALFORMED");
}

TEST_F(LimitsTest, WorkerThatSaysTooMuchWaitsAndIsHeard) {
  Serve([](ServerOptions&) {});
  PlayedWorker worker(channel_, Hello("a"));
  for (int i = 0; i < 40; ++i) worker.Write(Steps(kMaxStepsReported));
  v1::WorkerMessage report;
  report.mutable_report()->set_number(7);
  worker.Write(report);
  EXPECT_TRUE(worker.ReadAnswer(7));
  EXPECT_NE(Refused("worker_rate"), "0");
}

}  // namespace
}  // namespace paceline
