// A controller whose store refuses it, since another one leads.
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
#include "controller/store/memory_store.h"
#include "controller/testing/running_server.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

// As etcd to a leader that was deposed, from when `fenced` is set.
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

TEST(DeposedTest, ARefusedChangeIsForTheNextLeaderAndTheProcessEnds) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.http = "127.0.0.1:0";
  options.state_dir = NewDirectory();
  options.address_file = options.state_dir + "/address";
  options.plaintext = true;
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

  std::ifstream file(options.address_file);
  const std::string address = nlohmann::json::parse(file)["grpc"];
  const auto automation = v1::AutomationService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const grpc::Status kept = Pause(*automation, "r1");
  EXPECT_TRUE(kept.ok()) << kept.error_message();
  etcd.fenced = true;
  const grpc::Status refused = Pause(*automation, "r2");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(LeaderNamedIn(refused), Optional(std::string()));
  // By itself: nobody asks it to.
  running.join();
  EXPECT_EQ(ended.exit_code, kExitDeposed);
  EXPECT_THAT(std::string(ended.status.message()), HasSubstr("leads no more"));
}

}  // namespace
}  // namespace paceline
