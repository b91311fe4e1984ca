// How a controller starts, or fails to, over real sockets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/exit_codes.h"
#include "controller/server.h"
#include "controller/testing/running_server.h"
#include "proto/job.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Without waiting for anything; allows for a busy machine.
constexpr absl::Duration kSoon = absl::Seconds(20);

// Clients that keep calling a controller, whether it is there or not.
class Callers {
 public:
  explicit Callers(const std::string& address) {
    constexpr int kCallers = 4;
    for (int i = 0; i < kCallers; ++i) {
      threads_.emplace_back([this, address] {
        while (!ended_) Call(address);
      });
    }
  }
  ~Callers() {
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

 private:
  // Uses a new connection: one that has failed would back off before it tries again.
  static void Call(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto jobs = v1::JobService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ListJobsResponse response;
    jobs->List(&context, {}, &response);
  }

  std::atomic<bool> ended_{false};
  std::vector<std::thread> threads_;
};

class FailedStartTest : public ::testing::Test {
 protected:
  FailedStartTest() {
    options_.state_dir = NewDirectory();
    options_.address_file = options_.state_dir + "/address";
    options_.http = "127.0.0.1:0";
    options_.plaintext = true;
    // A port that is free again.
    options_.listen = RunningServer(NewDirectory()).Address("grpc");
  }

  // Repeated, since calls may arrive at any moment of a start.
  void ExpectFailures(int exit_code, const std::string& reason) const {
    constexpr int kTries = 10;
    const Callers callers(options_.listen);
    for (int i = 0; i < kTries; ++i) {
      const absl::Time begun = absl::Now();
      {
        const RunningServer server(options_);
        EXPECT_EQ(server.failure().exit_code, exit_code) << server.failure().status;
        EXPECT_THAT(std::string(server.failure().status.message()), HasSubstr(reason));
      }
      EXPECT_LT(absl::Now() - begun, kSoon);
    }
  }

  ServerOptions options_;
};

TEST_F(FailedStartTest, TakenHttpPortEndsAtOnceThoughClientsCall) {
  const RunningServer other(NewDirectory());
  options_.http = other.Address("http");
  ExpectFailures(kExitCannotListen, options_.http);
}

TEST_F(FailedStartTest, AddressFileThatCannotBeWrittenEndsItThoughClientsCall) {
  options_.address_file = options_.state_dir + "/absent/address";
  ExpectFailures(kExitFailure, options_.address_file);
}

TEST_F(FailedStartTest, ItsPortsAreFreeAgain) {
  options_.address_file = options_.state_dir + "/absent/address";
  EXPECT_FALSE(RunningServer(options_).failure().status.ok());
  options_.address_file = options_.state_dir + "/address";
  const RunningServer server(options_);
  EXPECT_TRUE(server.failure().status.ok()) << server.failure().status;
}

TEST(ServerStartTest, EachObstacleHasItsExitCodeAndNamesItself) {
  const std::string directory = NewDirectory();
  RunningServer first(directory);
  EXPECT_EQ(RunningServer(directory).failure().exit_code, kExitStateInUse);
  EXPECT_EQ(RunningServer(NewDirectory(), first.Address("grpc")).failure().exit_code,
            kExitCannotListen);

  const std::string file = NewDirectory() + "/file";
  std::ofstream(file) << "x";
  RunningServer unwritable(file + "/state");
  EXPECT_EQ(unwritable.failure().exit_code, kExitStateNotWritable);
  EXPECT_THAT(std::string(unwritable.failure().status.message()), HasSubstr(file));

  const std::string damaged = NewDirectory();
  std::ofstream(damaged + "/state.db") << std::string(5000, 'x');
  EXPECT_EQ(RunningServer(damaged).failure().exit_code, kExitStateDamaged);

  // There used to be a state.
  const std::string lost = NewDirectory();
  std::ofstream(lost + "/state.db").close();
  EXPECT_EQ(RunningServer(lost).failure().exit_code, kExitStateDamaged);
}

}  // namespace
}  // namespace paceline
