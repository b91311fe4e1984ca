// The services that every gRPC tool expects: health and reflection. Their messages are small enough
// to be written as bytes here.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "controller/testing/running_server.h"
#include "proto/job.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Sends one message to a method of any kind, and returns the first answer's bytes.
std::string Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(ok);
  };
  auto stream = stub.PrepareCall(&context, method, &queue);
  stream->StartCall(nullptr);
  wait();
  const grpc::Slice slice(message);
  stream->Write(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions().set_last_message(), nullptr);
  wait();
  grpc::ByteBuffer answer;
  stream->Read(&answer, nullptr);
  wait();
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  wait();
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices) bytes.append(part.begin(), part.end());
  return bytes;
}

// Streams of reflection on which nothing is asked.
class SilentStreams {
 public:
  SilentStreams(const std::shared_ptr<grpc::Channel>& channel, size_t count)
      : stub_(channel), ends_(count) {
    for (size_t i = 0; i < count; ++i) {
      contexts_.push_back(std::make_unique<grpc::ClientContext>());
      contexts_.back()->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
      streams_.push_back(stub_.PrepareCall(contexts_.back().get(), kReflection, &queue_));
      streams_.back()->StartCall(nullptr);
    }
    for (size_t i = 0; i < count; ++i) Next();
    for (size_t i = 0; i < count; ++i) streams_[i]->Finish(&ends_[i], &ends_[i]);
  }
  ~SilentStreams() {
    for (const auto& context : contexts_) context->TryCancel();
    while (ended_ < ends_.size()) WaitForEnd();
  }
  SilentStreams(const SilentStreams&) = delete;
  SilentStreams& operator=(const SilentStreams&) = delete;

  // Status of the next stream to end.
  grpc::Status WaitForEnd() {
    const auto* end = static_cast<const grpc::Status*>(Next());
    ++ended_;
    return *end;
  }

 private:
  void* Next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return tag;
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::vector<grpc::Status> ends_;
  size_t ended_ = 0;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> streams_;
};

// Threads of this process, which includes the server.
int Threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "Threads:") {
  }
  int threads = 0;
  status >> threads;
  return threads;
}

TEST(StandardServicesTest, HealthIsServing) {
  const RunningServer server(NewDirectory());
  // HealthCheckRequest{} -> HealthCheckResponse{status: SERVING}
  EXPECT_EQ(Call(server.Channel(), "/grpc.health.v1.Health/Check", ""), "\x08\x01");
}

TEST(StandardServicesTest, ReflectionListsOurServices) {
  const RunningServer server(NewDirectory());
  // ServerReflectionRequest{list_services: ""}
  const std::string services = Call(server.Channel(), kReflection, std::string("\x3a\x00", 2));
  for (const char* service :
       {"JobService", "NodeService", "WorkerService", "CheckpointService", "JobHistoryService"}) {
    EXPECT_THAT(services, HasSubstr(std::string("paceline.v1.") + service));
  }
}

TEST(StandardServicesTest, SilentReflectionTakesFewThreadsAndHoldsUpNothingElse) {
  constexpr size_t kStreams = 300;
  constexpr size_t kMostOpen = 16;
  constexpr int kFew = 100;  // gRPC's own threads for other work come and go.
  const RunningServer server(NewDirectory());
  const auto channel = server.Channel();
  Call(channel, "/grpc.health.v1.Health/Check", "");
  const int before = Threads();
  ASSERT_GT(before, 0);
  SilentStreams silent(channel, kStreams);
  for (size_t i = 0; i < kStreams - kMostOpen; ++i) {
    ASSERT_EQ(silent.WaitForEnd().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << i;
  }
  EXPECT_LT(Threads() - before, kFew);
  EXPECT_EQ(Call(channel, "/grpc.health.v1.Health/Check", ""), "\x08\x01");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(v1::JobService::NewStub(channel)->List(&context, {}, &jobs).ok());
}

}  // namespace
}  // namespace paceline
