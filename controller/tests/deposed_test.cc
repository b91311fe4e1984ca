// A controller whose store refuses its writes, since another controller leads.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/exit_codes.h"
#include "common/not_leader.h"
#include "controller/server.h"
#include "controller/store/testing/memory_store.h"
#include "controller/testing/running_server.h"
#include "proto/node.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// Once `fenced` is set, refuses writes as etcd does for a deposed leader.
class FencedStore : public MemoryStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    if (fenced) return absl::AbortedError("this controller leads no more: b:1 does");
    return MemoryStore::Commit(batch);
  }

  std::atomic<bool> fenced{false};
};

grpc::Status Pause(v1::AutomationService::Stub& automation, const std::string& request_id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::PauseAutomationRequest request;
  request.set_request_id(request_id);
  request.set_reason("a test");
  request.set_owner("ann");
  v1::AutomationStatus status;
  return automation.Pause(&context, request, &status);
}

ServerOptions Options() {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.http = "127.0.0.1:0";
  options.state_dir = NewDirectory();
  options.address_file = options.state_dir + "/address";
  options.plaintext = true;
  return options;
}

std::shared_ptr<grpc::Channel> ChannelTo(const ServerOptions& options) {
  std::ifstream file(options.address_file);
  const std::string address = nlohmann::json::parse(file)["grpc"];
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

TEST(DeposedTest, WorkersAreToldNothingWhenTheLeaseIsOver) {
  const ServerOptions options = Options();
  Server server(options);
  Elected elected;
  elected.store = std::make_unique<MemoryStore>();
  elected.term = 7;
  elected.may_act = [] { return false; };
  const ServerFailure started = server.Start(std::move(elected));
  ASSERT_TRUE(started.status.ok()) << started.status;
  std::thread running([&] { server.Run(); });

  const auto channel = ChannelTo(options);
  const auto workers = v1::WorkerService::NewStub(channel);
  grpc::ClientContext session_context;
  const auto session = workers->Session(&session_context);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_node("w0");
  hello.mutable_hello()->set_node_uid("u0");
  hello.mutable_hello()->set_slots(1);
  ASSERT_TRUE(session->Write(hello));
  // The event was received.
  grpc::ClientContext watch_context;
  const auto watch =
      v1::NodeService::NewStub(channel)->Watch(&watch_context, v1::WatchNodesRequest());
  v1::NodeEvent event;
  while (event.node().name() != "w0") ASSERT_TRUE(watch->Read(&event));
  server.Shutdown();
  v1::ControllerMessage message;
  EXPECT_FALSE(session->Read(&message)) << message.ShortDebugString();
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  while (watch->Read(&event)) {
  }
  watch->Finish();
  running.join();
}

TEST(DeposedTest, ARefusedChangeIsForTheNextLeaderAndTheProcessEnds) {
  const ServerOptions options = Options();
  Server server(options);
  Elected elected;
  auto store = std::make_unique<FencedStore>();
  FencedStore& etcd = *store;
  elected.store = std::move(store);
  elected.term = 7;
  const ServerFailure started = server.Start(std::move(elected));
  ASSERT_TRUE(started.status.ok()) << started.status;
  ServerFailure ended;
  std::thread running([&] { ended = server.Run(); });

  const auto automation = v1::AutomationService::NewStub(ChannelTo(options));
  const grpc::Status kept = Pause(*automation, "r1");
  EXPECT_TRUE(kept.ok()) << kept.error_message();
  etcd.fenced = true;
  const grpc::Status refused = Pause(*automation, "r2");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(LeaderNamedIn(refused), Optional(std::string()));
  // It ends by itself, without being asked to.
  running.join();
  EXPECT_EQ(ended.exit_code, kExitDeposed);
  EXPECT_THAT(std::string(ended.status.message()), HasSubstr("leads no more"));
}

}  // namespace
}  // namespace paceline
