// The services that every gRPC tool expects: health and reflection. Their messages are small
// enough to be written here as bytes.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/testing/running_server.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

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

TEST(StandardServicesTest, HealthIsServing) {
  const RunningServer server(NewDirectory());
  // HealthCheckRequest{} -> HealthCheckResponse{status: SERVING}
  EXPECT_EQ(Call(server.Channel(), "/grpc.health.v1.Health/Check", ""), "\x08\x01");
}

TEST(StandardServicesTest, ReflectionListsOurServices) {
  const RunningServer server(NewDirectory());
  // ServerReflectionRequest{list_services: ""}
  const std::string services =
      Call(server.Channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
           std::string("\x3a\x00", 2));
  for (const char* service :
       {"JobService", "NodeService", "WorkerService", "CheckpointService", "JobHistoryService"}) {
    EXPECT_THAT(services, HasSubstr(std::string("paceline.v1.") + service));
  }
}

}  // namespace
}  // namespace paceline
