// Three controllers over three members of etcd, while a job trains: whatever happens to the leader
// or to etcd, the job keeps its trainers, its history loses nothing, and one controller at a time
// leads.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/exit_codes.h"
#include "proto/job_history.grpc.pb.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/faults/controller_group.h"
#include "tests/faults/recovering_job.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Of cli/exit_codes.h.
constexpr int kUnavailable = 6;
constexpr int kWorkers = 3;
// What is promised of a switch, from the leader's death to the next one that serves.
constexpr absl::Duration kSwitch = absl::Seconds(5);

int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

class LeaderTest : public RecoveringJobTest {
 protected:
  void SetUp() override {
    TestNetwork network;
    network.controllers = controllers_.Addresses();
    network.leader = [this] { return controllers_.Address(controllers_.WaitForLeader()); };
    cluster_ = std::make_unique<TestCluster>(kWorkers, 1, network);
    before_ = Start(Spec(1200));
    events_ = Events();
    // As people follow it, until it has ended.
    std::vector<std::string> watch = cluster_->ClientFlags();
    watch.insert(watch.begin(), Program("paceline"));
    watch.insert(watch.end(), {"job", "events", id_, "--follow", "-o", "json"});
    watch_.emplace(watch, watched_);
  }

  // The controllers' ends come after that of the cluster.
  void TearDown() override {
    watch_.reset();
    cluster_.reset();
  }

  v1::JobHistory History() const {
    const auto histories = v1::JobHistoryService::NewStub(
        grpc::CreateChannel(controllers_.Address(leader_), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetJobHistoryRequest request;
    request.set_job(id_);
    v1::JobHistory history;
    const grpc::Status status = histories->Get(&context, request, &history);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return history;
  }
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    const v1::JobHistory history = History();
    for (const v1::JobHistoryEvent& event : history.events()) {
      events.push_back(event.ShortDebugString());
    }
    return events;
  }

  // Another one leads, within what is promised of a fault that began then.
  void ExpectSwitchSince(absl::Time begin) {
    controllers_.WaitForLeaderAfter(leader_);
    EXPECT_LE(absl::Now() - begin, kSwitch);
  }

  // Who has followed the job was told each event, once and in order, whoever led.
  void ExpectNoGapInTheWatch() {
    EXPECT_EQ(watch_->Wait(), 0) << ReadFile(watched_);
    std::vector<int64_t> told;
    std::istringstream lines(ReadFile(watched_));
    std::string line;
    while (std::getline(lines, line)) {
      // Between them stands what it says of outages.
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (!event.is_object()) continue;
      told.emplace_back();
      EXPECT_TRUE(absl::SimpleAtoi(event["id"].get<std::string>(), &told.back())) << line;
    }
    std::vector<int64_t> happened;
    const v1::JobHistory history = History();
    for (const v1::JobHistoryEvent& event : history.events()) happened.push_back(event.id());
    EXPECT_GT(happened.size(), events_.size());
    EXPECT_EQ(told, happened);
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
    ExpectNoGapInTheWatch();
    const Finished described = Paceline({"job", "describe", id_});
    EXPECT_EQ(described.exit_code, 0) << described.output;
    controllers_.ExpectOneLeaderAtATime();
  }

  EtcdCluster etcd_{3};
  ControllerGroup controllers_{etcd_, 3};
  int leader_ = controllers_.WaitForLeader();
  v1::Job before_;
  std::vector<std::string> events_;
  const std::string watched_ = NewFolder() + "/watched";
  std::optional<Process> watch_;
};

TEST_F(LeaderTest, AKilledLeaderIsFollowedByAStandby) {
  const absl::Time begin = absl::Now();
  controllers_.Kill(leader_);
  ExpectSwitchSince(begin);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatEndsHandsOverAtOnce) {
  const absl::Time begin = absl::Now();
  controllers_.Signal(leader_, SIGTERM);
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitOk);
  ExpectSwitchSince(begin);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatWasFrozenEndsWhenItGoesOn) {
  const absl::Time begin = absl::Now();
  controllers_.Signal(leader_, SIGSTOP);
  ExpectSwitchSince(begin);
  // It still believes that it leads; what it writes, etcd refuses.
  controllers_.Signal(leader_, SIGCONT);
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitDeposed);
  controllers_.Start(leader_);
  ExpectNothingLost();
}

TEST_F(LeaderTest, ALeaderThatIsCutOffFromEtcdIsFollowedByAnother) {
  const absl::Time begin = absl::Now();
  for (const auto& wire : controllers_.Wires(leader_)) wire->Cut();
  EXPECT_EQ(controllers_.WaitForEnd(leader_), kExitDeposed);
  ExpectSwitchSince(begin);
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
  // Each says so once, however long it lasts, and whoever asks is told.
  for (int c = 0; c < 3; ++c) {
    EXPECT_TRUE(Eventually([&] {
      return absl::StrContains(controllers_.Log(c), "etcd_unreachable");
    })) << controllers_.Log(c);
    EXPECT_FALSE(controllers_.Leads(c));
  }
  const Finished asked = Paceline({"--timeout", "5", "job", "list"});
  EXPECT_EQ(asked.exit_code, kUnavailable) << asked.output;
  EXPECT_THAT(asked.output, HasSubstr("nobody leads"));
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(Count(controllers_.Log(c), R"("event":"etcd_unreachable")"),
              Count(controllers_.Log(c), R"("event":"etcd_back")") + 1)
        << controllers_.Log(c);
  }
  for (const v1::Rank& rank : before_.ranks()) {
    EXPECT_EQ(::kill(static_cast<pid_t>(rank.pid()), 0), 0) << "rank " << rank.rank();
  }
  etcd_.Continue();
  controllers_.WaitForLeader();
  ExpectNothingLost();
}

}  // namespace
}  // namespace paceline
