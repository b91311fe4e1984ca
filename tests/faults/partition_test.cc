// Jobs whose nodes are separate hosts: the wire of one is cut while its rank trains, for a moment,
// and for longer than its lease. And scripts with the real torch run on two hosts, as under
// torchrun.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "proto/node.grpc.pb.h"
#include "tests/faults/network_host.h"
#include "tests/faults/recovering_job.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 4;

class PartitionTest : public RecoveringJobTest {
 protected:
  void SetUp() override {
    const absl::Status entered = EnterOwnNetwork();
    if (!entered.ok()) GTEST_SKIP() << "wires cannot be cut here: " << entered.message();
    for (int w = 0; w < kWorkers; ++w) hosts_.emplace_back(w);
  }
  // The daemons end before their hosts.
  void TearDown() override { cluster_.reset(); }

  // Four workers with one slot each, each on a host of its own.
  void StartHosts(double lease_s) {
    TestNetwork network;
    network.controller_host = kBridgeAddress;
    network.controller_flags = {"--node-lease", absl::StrCat(lease_s)};
    network.enter = [this](int w) { return hosts_[w].Enter(); };
    network.host = [this](int w) { return hosts_[w].address(); };
    cluster_ = std::make_unique<TestCluster>(kWorkers, 1, network);
  }

  v1::Node NodeOf(int w) {
    grpc::ClientContext context;
    v1::GetNodeRequest request;
    request.set_name(absl::StrCat("w", w));
    v1::Node node;
    v1::NodeService::NewStub(cluster_->channel())->Get(&context, request, &node);
    return node;
  }

  // Steps done according to the log of a rank whose process has not been replaced.
  int64_t StepsIn(const v1::Rank& rank) const {
    const std::string dir =
        absl::StrCat(cluster_->WorkerFile(WorkerOf(rank), "state"), "/trainers/", id_, ".",
                     rank.started_generation(), ".", rank.started_rank());
    int64_t steps = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = ReadFile(entry.path());
      for (size_t at = text.find("step="); at != std::string::npos; at = text.find("step=", at)) {
        at += 5;
        int64_t step = 0;
        if (absl::SimpleAtoi(text.substr(at, text.find(' ', at) - at), &step)) {
          steps = std::max(steps, step);
        }
      }
    }
    return steps;
  }

  std::vector<NetworkHost> hosts_;
};

TEST_F(PartitionTest, AShortCutMovesNothing) {
  StartHosts(/*lease_s=*/60);
  const v1::Job before = Start(Spec(200));
  const NetworkHost& host = hosts_[WorkerOf(before.ranks(1))];
  host.Cut();
  int64_t stood = StepsIn(before.ranks(0));
  EXPECT_TRUE(Eventually([&] {
    absl::SleepFor(absl::Seconds(2));
    const int64_t now = StepsIn(before.ranks(0));
    return std::exchange(stood, now) == now;
  }));
  absl::SleepFor(absl::Seconds(3));
  EXPECT_EQ(StepsIn(before.ranks(0)), stood) << "it went on without a rank";
  EXPECT_LT(stood, 200);
  host.Mend();
  ExpectUndisturbedEnd();
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.generation(), before.generation());
  EXPECT_EQ(after.membership_changes_size(), 0);
}

TEST_F(PartitionTest, ANodeThatIsCutOffForLongerThanItsLeaseHoldsNoRank) {
  StartHosts(/*lease_s=*/4);
  v1::JobSpec spec = Spec(400);
  spec.set_stall_warning_s(3.7);
  spec.set_hang_timeout_s(3.8);
  spec.set_collective_timeout_s(3.9);
  const v1::Job before = Start(spec);
  const v1::Rank& lost = before.ranks(0);  // Whose store they all use.
  const int node = WorkerOf(lost);
  hosts_[node].Cut();

  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_NE(::kill(static_cast<pid_t>(lost.pid()), 0), 0) << "two processes hold rank 0";
  EXPECT_EQ(NodeOf(node).state(), v1::NODE_LOST);
  EXPECT_NE(after.ranks(0).node(), lost.node());
  EXPECT_EQ(after.ranks(1).pid(), before.ranks(1).pid());
  EXPECT_EQ(after.ranks(2).pid(), before.ranks(2).pid());
  EXPECT_LE(StepsIn(lost), after.membership_changes().rbegin()->step());
  EXPECT_THAT(ReadFile(cluster_->WorkerFile(node, "log")), HasSubstr("lease_run_out"));

  hosts_[node].Mend();
  EXPECT_TRUE(Eventually([&] { return NodeOf(node).state() == v1::NODE_READY; }));
  EXPECT_EQ(NodeOf(node).slots_used(), 0);
  EXPECT_THAT(ProcessesMentioning(cluster_->WorkerFile(node, "state/trainers")),
              ::testing::IsEmpty());
  ExpectUndisturbedEnd();
}

TEST_F(PartitionTest, AJobThatIsCutOffAsAWholeTrainsOnAndIsGivenToNobody) {
  StartHosts(/*lease_s=*/13);
  v1::JobSpec spec = Spec(600);
  spec.set_stall_warning_s(10);
  spec.set_hang_timeout_s(11);
  spec.set_collective_timeout_s(12);
  const v1::Job before = Start(spec);
  // The hosts of this bridge reach each other, and nothing else.
  const Finished added = RunToEnd({"/sbin/ip", "link", "add", "other", "type", "bridge"});
  ASSERT_EQ(added.exit_code, 0) << added.output;
  RunToEnd({"/sbin/ip", "link", "set", "other", "up"});
  const auto connect = [&](const std::string& bridge) {
    for (const v1::Rank& rank : before.ranks()) {
      RunToEnd({"/sbin/ip", "link", "set", absl::StrCat("wire", WorkerOf(rank)), "master", bridge});
    }
  };
  connect("other");
  EXPECT_TRUE(Eventually(
      [&] {
        for (const v1::Rank& rank : before.ranks()) {
          if (NodeOf(WorkerOf(rank)).state() != v1::NODE_LOST) return false;
        }
        return true;
      },
      absl::Seconds(30)));
  absl::SleepFor(absl::Seconds(2));
  EXPECT_THAT(cluster_->Get(id_).reason(), HasSubstr("none of its nodes answers"));
  EXPECT_EQ(cluster_->Get(id_).generation(), before.generation());
  const int64_t steps = StepsIn(before.ranks(0));
  EXPECT_TRUE(Eventually([&] { return StepsIn(before.ranks(0)) > steps; })) << "the ranks train on";
  connect("bridge");
  ExpectUndisturbedEnd();
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.generation(), before.generation());
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
}

// ---- Scripts over two hosts.

// Each start imports torch.
constexpr absl::Duration kTorchPatience = absl::Minutes(5);

constexpr char kScript[] = R"(
import os, signal, time

rank, start = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
place = os.environ["MASTER_ADDR"] + " " + os.environ["MASTER_PORT"]
if rank == 0:
    with open("start.new", "w") as file:
        file.write(place)
    os.rename("start.new", "start" + start)
while start == "0" and not os.path.exists("go"):
    time.sleep(0.01)

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
sum = torch.tensor([rank + 1])
dist.all_reduce(sum)
print("the sum is", sum.item(), flush=True)
if start == "0" and rank == 3:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
dist.destroy_process_group()
)";

class TwoNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status entered = EnterOwnNetwork();
    if (!entered.ok()) GTEST_SKIP() << "there cannot be two hosts here: " << entered.message();
    hosts_.emplace_back(0);
    hosts_.emplace_back(1);
    TestNetwork network;
    network.controller_host = kBridgeAddress;
    network.commands = "on";
    network.enter = [this](int w) { return hosts_[w].Enter(); };
    network.host = [this](int w) { return hosts_[w].address(); };
    cluster_ = std::make_unique<TestCluster>(2, 2, network);
    std::ofstream(File("own.py")) << kScript;
  }
  // The daemons end before their hosts.
  void TearDown() override { cluster_.reset(); }

  // Submits a script that may be started again once.
  std::string Submit(int ranks) {
    v1::JobSpec spec;
    spec.set_name("own");
    spec.set_ranks(ranks);
    spec.set_working_directory(cluster_->directory());
    spec.set_max_restarts(1);
    const std::string python = absl::StrCat(std::getenv("TEST_SRCDIR"), "/torch/python.sh");
    for (const std::string& word : {python, std::string("own.py")}) spec.add_command(word);
    return cluster_->Submit(spec).id();
  }
  v1::Job WaitForEnd(const std::string& id) {
    v1::Job job;
    EXPECT_TRUE(Eventually(
        [&] {
          job = cluster_->Get(id);
          return HasEnded(job);
        },
        kTorchPatience))
        << job.DebugString();
    return job;
  }

  std::string File(const std::string& name) const {
    return absl::StrCat(cluster_->directory(), "/", name);
  }
  // MASTER_ADDR and MASTER_PORT of a start, as rank 0 printed them.
  std::vector<std::string> PlaceOfStart(int number) const {
    std::string text;
    EXPECT_TRUE(Eventually(
        [&] {
          text = ReadFile(File(absl::StrCat("start", number)));
          return !text.empty();
        },
        kTorchPatience));
    return absl::StrSplit(text, ' ');
  }
  const NetworkHost& HostOf(const v1::Rank& rank) const { return hosts_[rank.node() == "w1"]; }

  std::vector<NetworkHost> hosts_;
  std::unique_ptr<TestCluster> cluster_;
};

TEST_F(TwoNodesTest, RanksRendezvousOverGlooAndAgainWhenOneWasKilled) {
  std::ofstream(File("go")) << "";
  const std::string id = Submit(4);
  const v1::Job job = WaitForEnd(id);
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString() << cluster_->Log(id, 0);
  EXPECT_NE(job.ranks(1).node(), job.ranks(2).node());
  EXPECT_EQ(job.restarts(), 1);
  EXPECT_THAT(job.restart_reason(), HasSubstr("rank 3 on "));
  EXPECT_THAT(job.restart_reason(), HasSubstr("SIGKILL"));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(cluster_->Log(id, rank), HasSubstr("the sum is 10\n")) << rank;
  }
  const std::vector<std::string> first = PlaceOfStart(0);
  const std::vector<std::string> second = PlaceOfStart(1);
  EXPECT_EQ(second[0], HostOf(job.ranks(0)).address());
  EXPECT_NE(first[1], second[1]);
}

TEST_F(TwoNodesTest, APortThatAStrangerHasTakenIsTheReasonAndTheNextStartHasAnother) {
  const std::string id = Submit(3);
  const std::vector<std::string> place = PlaceOfStart(0);
  const v1::Rank rank = cluster_->Get(id).ranks(0);
  std::vector<std::string> command = HostOf(rank).Enter();
  command.insert(
      command.end(),
      {"/usr/bin/python3", "-c",
       absl::StrCat("import socket, time\nstranger = socket.create_server(('', ", place[1],
                    "))\nopen('", File("go"), "', 'w').close()\ntime.sleep(3600)")});
  const Process stranger(command, File("stranger.log"));
  const v1::Job job = WaitForEnd(id);
  ASSERT_EQ(job.state(), v1::SUCCEEDED)
      << job.DebugString() << ReadFile(File("stranger.log")) << cluster_->Log(id, 0);
  EXPECT_EQ(job.restarts(), 1);
  EXPECT_THAT(job.restart_reason(), HasSubstr("rank 0 on "));
  EXPECT_THAT(job.restart_reason(), HasSubstr("EADDRINUSE"));
  EXPECT_NE(PlaceOfStart(1)[1], place[1]);
  EXPECT_THAT(cluster_->Log(id, 2), HasSubstr("the sum is 6\n"));
}

}  // namespace
}  // namespace paceline
