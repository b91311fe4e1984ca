// Watches of jobs and nodes over real sockets; reads bytes where those matter.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/testing/server_fixture.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

constexpr char kWatchJobs[] = "/paceline.v1.JobService/Watch";
constexpr char kWatchNodes[] = "/paceline.v1.NodeService/Watch";

// A watch that reads bytes, for any request.
class RawWatch {
 public:
  RawWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
           const std::string& request)
      : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_.PrepareCall(&context_, method, &queue_);
    stream_->StartCall(nullptr);
    Wait();
    const grpc::Slice slice(request);
    stream_->Write(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions().set_last_message(), nullptr);
    Wait();
  }
  ~RawWatch() {
    if (finished_) return;
    context_.TryCancel();
    Finish();
  }

  // None: it has ended.
  std::optional<std::string> Read() {
    grpc::ByteBuffer message;
    stream_->Read(&message, nullptr);
    if (!Wait()) return std::nullopt;
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
    return bytes;
  }
  // Status with which it ended.
  grpc::Status Finish() {
    finished_ = true;
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Wait();
    return status;
  }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool finished_ = false;
};

TEST_F(ServerTest, AllWatchersOfAChangeAreSentTheSameBytes) {
  const auto worker = Join(Hello("w0"));
  grpc::ClientContext context;
  v1::ListJobsResponse list;
  ASSERT_TRUE(jobs_->List(&context, {}, &list).ok());
  v1::WatchJobsRequest request;
  request.set_after_revision(list.revision());
  RawWatch first(channel_, kWatchJobs, request.SerializeAsString());
  RawWatch second(channel_, kWatchJobs, request.SerializeAsString());
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  ASSERT_TRUE(Submit(Spec(2), "r2", &job).ok());
  // A later watch reads the same bytes.
  RawWatch third(channel_, kWatchJobs, request.SerializeAsString());
  for (int i = 1; i <= 2; ++i) {
    const std::string bytes = first.Read().value_or("");
    EXPECT_EQ(second.Read(), bytes);
    EXPECT_EQ(third.Read(), bytes);
    v1::JobEvent event;
    ASSERT_TRUE(event.ParseFromString(bytes));
    EXPECT_EQ(event.revision(), list.revision() + i);
    EXPECT_EQ(event.job().revision(), list.revision() + i);
  }
}

TEST_F(ServerTest, AWatchOfNodesListsThemAndTellsOfChanges) {
  const auto first = Join(Hello("w0"));
  const auto second = Join(Hello("w1"));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto nodes = v1::NodeService::NewStub(channel_);
  const auto stream = nodes->Watch(&context, v1::WatchNodesRequest());
  v1::NodeEvent event;
  for (const char* name : {"w0", "w1"}) {
    do {
      ASSERT_TRUE(stream->Read(&event));
    } while (event.type() == v1::MODIFIED);
    EXPECT_EQ(event.type(), v1::ADDED);
    EXPECT_EQ(event.node().name(), name);
    EXPECT_EQ(event.node().revision(), event.revision());
  }
  while (event.type() != v1::BOOKMARK) ASSERT_TRUE(stream->Read(&event));
  const int64_t listed = event.revision();
  const auto third = Join(Hello("w2"));
  while (event.node().name() != "w2") ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::ADDED);
  EXPECT_GT(event.revision(), listed);
  context.TryCancel();
}

TEST_F(ServerTest, AWatchOfAJobListsThatOneOnly) {
  const auto worker = Join(Hello("w0"));
  v1::Job wanted;
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  ASSERT_TRUE(Submit(Spec(), "r2", &wanted).ok());
  ASSERT_TRUE(Submit(Spec(), "r3", &job).ok());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::WatchJobsRequest request;
  request.set_job_id(wanted.id());
  const auto stream = jobs_->Watch(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::ADDED);
  EXPECT_EQ(event.job().id(), wanted.id());
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::BOOKMARK);
  context.TryCancel();
}

TEST_F(ServerTest, AWatchWhoseRequestIsNoneIsRefused) {
  for (const char* method : {kWatchJobs, kWatchNodes}) {
    RawWatch watch(channel_, method, "\xff");
    EXPECT_FALSE(watch.Read().has_value()) << method;
    const grpc::Status status = watch.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_EQ(Reason(status), "REQUEST_MALFORMED") << method;
  }
}

}  // namespace
}  // namespace paceline
