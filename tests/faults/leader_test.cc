// Three controllers over three members of etcd, while a job trains: whatever happens to the leader
// or to etcd, the job keeps its trainers, its history loses nothing, and one controller at a time
// leads.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/exit_codes.h"
#include "proto/job_history.grpc.pb.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/faults/controller_group.h"
#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

constexpr int kWorkers = 3;
// What is promised of a switch, from the leader's death to the next one that serves.
constexpr absl::Duration kSwitch = absl::Seconds(5);

class LeaderTest : public RecoveringJobTest {
 protected:
  void SetUp() override {
    TestNetwork network;
    network.controllers = controllers_.Addresses();
    network.leader = [this] { return controllers_.Address(controllers_.WaitForLeader()); };
    cluster_ = std::make_unique<TestCluster>(kWorkers, 1, network);
    before_ = Start(Spec(1200));
    events_ = Events();
  }

  // The controllers' ends come after that of the cluster.
  void TearDown() override { cluster_.reset(); }

  std::vector<std::string> Events() const {
    const auto histories = v1::JobHistoryService::NewStub(
        grpc::CreateChannel(controllers_.Address(leader_), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetJobHistoryRequest request;
    request.set_job(id_);
    v1::JobHistory history;
    const grpc::Status status = histories->Get(&context, request, &history);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> events;
    for (const v1::JobHistoryEvent& event : history.events()) {
      events.push_back(event.ShortDebugString());
    }
    return events;
  }

  // The job trains on under the present leader, as if nothing had happened.
  void ExpectNothingLost() {
    cluster_->FollowLeader();
    leader_ = controllers_.WaitForLeader();
    cluster_->WaitForNodes(kWorkers);
    const v1::Job now = cluster_->WaitForSteps(id_, Step(before_) + 20);
    EXPECT_EQ(now.generation(), before_.generation());
    ASSERT_EQ(now.ranks_size(), before_.ranks_size());
    for (int r = 0; r < now.ranks_size(); ++r) {
      EXPECT_EQ(now.ranks(r).pid(), before_.ranks(r).pid()) << "rank " << r;
    }
    const std::vector<std::string> events = Events();
    ASSERT_GE(events.size(), events_.size());
    EXPECT_TRUE(std::equal(events_.begin(), events_.end(), events.begin()))
        << "the history has changed";
    ExpectUndisturbedEnd();
    EXPECT_EQ(cluster_->Get(id_).generation(), before_.generation());
    controllers_.ExpectOneLeaderAtATime();
  }

  EtcdCluster etcd_{3};
  ControllerGroup controllers_{etcd_, 3};
  int leader_ = controllers_.WaitForLeader();
  v1::Job before_;
  std::vector<std::string> events_;
};

TEST_F(LeaderTest, AKilledLeaderIsFollowedByAStandby) {
  const absl::Time killed = absl::Now();
  controllers_.Kill(leader_);
  controllers_.WaitForLeaderAfter(leader_);
  EXPECT_LE(absl::Now() - killed, kSwitch);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatEndsHandsOverAtOnce) {
  controllers_.Signal(leader_, SIGTERM);
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitOk);
  controllers_.WaitForLeaderAfter(leader_);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatWasFrozenEndsWhenItGoesOn) {
  controllers_.Signal(leader_, SIGSTOP);
  controllers_.WaitForLeaderAfter(leader_);
  // It still believes that it leads; what it writes, etcd refuses.
  controllers_.Signal(leader_, SIGCONT);
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitDeposed);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatIsCutOffFromEtcdIsFollowedByAnother) {
  for (const auto& wire : controllers_.Wires(leader_)) wire->Cut();
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitDeposed);
  controllers_.WaitForLeaderAfter(leader_);
  for (const auto& wire : controllers_.Wires(leader_)) wire->Mend();
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, AMemberOfEtcdThatIsKilledIsNotMissed) {
  const int member = etcd_.Leader();
  etcd_.Kill(member);
  etcd_.WaitUntilReady();
  // Also what is new is stored.
  EXPECT_EQ(Paceline({"node", "cordon", "w0", "--reason", "test"}).exit_code, 0);
  EXPECT_EQ(Paceline({"node", "uncordon", "w0"}).exit_code, 0);
  etcd_.Start(member);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ASlowEtcdSlowsChangesDownAndNothingElse) {
  for (int c = 0; c < 3; ++c) {
    for (const auto& wire : controllers_.Wires(c)) wire->Delay(absl::Milliseconds(100));
  }
  EXPECT_EQ(Paceline({"node", "cordon", "w0", "--reason", "test"}).exit_code, 0);
  EXPECT_EQ(Paceline({"node", "uncordon", "w0"}).exit_code, 0);
  EXPECT_EQ(controllers_.WaitForLeader(), leader_) << "it leads all the time";
  for (int c = 0; c < 3; ++c) {
    for (const auto& wire : controllers_.Wires(c)) wire->Delay(absl::ZeroDuration());
  }
  ExpectNothingLost();
}

TEST_F(LeaderTest, WithoutEtcdAllStandByAndTheJobTrainsOn) {
  etcd_.Freeze();
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitDeposed);
  controllers_.Start(leader_);
  for (int c = 0; c < 3; ++c) EXPECT_FALSE(controllers_.Leads(c));
  for (const v1::Rank& rank : before_.ranks()) {
    EXPECT_EQ(::kill(static_cast<pid_t>(rank.pid()), 0), 0) << "rank " << rank.rank();
  }
  etcd_.Continue();
  controllers_.WaitForLeader();
  ExpectNothingLost();
}

}  // namespace
}  // namespace paceline
