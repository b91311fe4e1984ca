// Tests the metrics of clients' calls over real sockets.
#include "controller/metrics/rpc_metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "controller/metrics/metric_families.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Labels(const std::string& service, const std::string& method, const std::string& type) {
  return "grpc_method=\"" + method + "\",grpc_service=\"" + service + "\",grpc_type=\"" + type +
         "\"";
}
std::string Handled(const std::string& code, const std::string& labels) {
  return "grpc_server_handled_total{grpc_code=\"" + code + "\"," + labels + "} ";
}

using RpcMetricsTest = ServerTest;

TEST_F(RpcMetricsTest, CallsAreCountedByTheirEndAndUnaryOnesTimed) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  ASSERT_TRUE(Submit(Spec(), "r2", &job).ok());
  ASSERT_FALSE(Submit(Spec(), "", &job).ok());
  const std::string submit = Labels("paceline.v1.JobService", "Submit", "unary");
  const std::string text = ReadMetrics(Handled("InvalidArgument", submit) + "1\n");
  EXPECT_THAT(text, HasSubstr(Handled("OK", submit) + "2\n"));
  EXPECT_THAT(text, HasSubstr("grpc_server_started_total{" + submit + "} 3\n"));
  EXPECT_THAT(text, HasSubstr("grpc_server_handling_seconds_count{" + submit + "} 3\n"));
  const std::string session = Labels("paceline.v1.WorkerService", "Session", "bidi_stream");
  EXPECT_THAT(text, HasSubstr("grpc_server_started_total{" + session + "} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("grpc_server_handling_seconds_count{" + session + "}")));
  EXPECT_THAT(text, Not(HasSubstr(Handled("OK", session))));
}

TEST_F(RpcMetricsTest, WatchThatItsClientEndsIsCounted) {
  grpc::ClientContext context;
  auto stream = jobs_->Watch(&context, v1::WatchJobsRequest());
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ReadMetrics("paceline_watch_streams{resource=\"jobs\"} 1\n");
  context.TryCancel();
  while (stream->Read(&event)) {
  }
  const std::string watch = Labels("paceline.v1.JobService", "Watch", "server_stream");
  const std::string text = ReadMetrics(Handled("Canceled", watch) + "1\n");
  EXPECT_THAT(text, HasSubstr("grpc_server_started_total{" + watch + "} 1\n"));
  ReadMetrics("paceline_watch_streams{resource=\"jobs\"} 0\n");
}

TEST_F(RpcMetricsTest, NamesThatClientsMakeUpAreNoLabels) {
  grpc::GenericStub stub(channel_);
  for (const char* path : {"/paceline.v1.JobService/Gamble", "/any.Service/Get"}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice nothing("");
    auto call = stub.PrepareUnaryCall(&context, path, grpc::ByteBuffer(&nothing, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  // Unknown names are answered by gRPC, for which any kind of call is possible.
  const std::string unknown = Labels("unknown", "unknown", "bidi_stream");
  const std::string text = ReadMetrics(Handled("Unimplemented", unknown) + "2\n");
  EXPECT_THAT(text, Not(HasSubstr("Gamble")));
  EXPECT_THAT(text, Not(HasSubstr("any.Service")));
}

TEST(RpcMetricsTableTest, UnknownMethodsShareOneSeries) {
  MetricRegistry registry(ControllerFamilies());
  RpcMetrics metrics(registry);
  for (int i = 0; i < 100; ++i) {
    metrics.End(metrics.Begin("/any.Service/M" + std::to_string(i), RpcMetrics::Type::UNARY),
                grpc::StatusCode::UNIMPLEMENTED, absl::Milliseconds(1));
  }
  EXPECT_THAT(
      registry.Text(),
      HasSubstr("grpc_server_started_total{grpc_method=\"unknown\",grpc_service=\"unknown\","
                "grpc_type=\"unary\"} 100\n"));
  EXPECT_THAT(registry.Text(), Not(HasSubstr("any.Service")));
  EXPECT_STREQ(RpcCodeLabel(grpc::StatusCode::UNAUTHENTICATED), "Unauthenticated");
  EXPECT_STREQ(RpcCodeLabel(grpc::StatusCode::OK), "OK");
}

}  // namespace
}  // namespace paceline
