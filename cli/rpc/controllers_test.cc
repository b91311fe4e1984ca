// A client of several controllers.
#include "cli/rpc/controllers.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/rpc/client.h"
#include "cli/rpc/interrupt.h"
#include "cli/testing/fake_controller.h"
#include "common/not_leader.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

grpc::Status NotLeader(const std::string& leader) {
  google::rpc::ErrorInfo info;
  info.set_reason(kNotLeaderReason);
  if (!leader.empty()) (*info.mutable_metadata())[kLeaderMetadata] = leader;
  google::rpc::Status status;
  status.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stands by", status.SerializeAsString());
}

TEST(ControllersTest, TheNamedOneIsCalledNext) {
  Controllers controllers({"a:1", "b:1"}, /*plaintext=*/false,
                          [](const std::string& address, bool several) {
                            EXPECT_TRUE(several);
                            return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
                          });
  const auto first = controllers.channel();
  EXPECT_EQ(controllers.channel(), first) << "one channel for each";
  EXPECT_TRUE(controllers.Failed("a:1", NotLeader("b:1")));
  EXPECT_EQ(controllers.address(), "b:1");
  EXPECT_NE(controllers.channel(), first);
  // Another call has noticed, too.
  EXPECT_TRUE(controllers.Failed("a:1", NotLeader("b:1")));
  EXPECT_EQ(controllers.address(), "b:1");
}

class FollowingTest : public ::testing::Test {
 protected:
  FollowingTest() {
    v1::Job job;
    job.set_id("job-1");
    leader_.SetJobs({job});
  }

  grpc::Status Get(const std::string& server) {
    Client::Options options;
    options.server = server;
    options.timeout = absl::Seconds(20);
    Client client(options, interrupt_);
    v1::GetJobRequest request;
    request.set_job("job-1");
    v1::Job job;
    return client.Call(methods::kJobGet, request, &job);
  }

  Interrupt interrupt_;
  FakeController leader_;
};

TEST_F(FollowingTest, OneThatIsGoneIsLeftForTheNext) {
  EXPECT_TRUE(Get(absl::StrCat("127.0.0.1:1,", leader_.address())).ok());
}

// For example by a leader that shuts down while it answers.
TEST_F(FollowingTest, ACallThatTheServerCancelsIsMadeAgain) {
  leader_.FailNext(grpc::Status(grpc::StatusCode::CANCELLED, ""));
  Client::Options options;
  options.server = leader_.address();
  options.timeout = absl::Seconds(20);
  Client client(options, interrupt_);
  v1::Job job;
  const grpc::Status status = client.Call(methods::kJobSubmit, v1::SubmitJobRequest(), &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(FollowingTest, AStandbyLeadsToTheLeader) {
  FakeController standby;
  v1::JobEvent event;
  standby.AddWatch({{}, NotLeader(leader_.address())});
  leader_.AddWatch({{event}, std::nullopt});
  Client::Options options;
  // The leader is not in the list.
  options.server = standby.address();
  Client client(options, interrupt_);
  const auto take_one = [](const v1::JobEvent&) { return false; };
  EXPECT_EQ(client.Stream(methods::kJobWatch, v1::WatchJobsRequest(), take_one).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(client.Stream(methods::kJobWatch, v1::WatchJobsRequest(), take_one).ok());
}

}  // namespace
}  // namespace paceline
