// Where the cluster finds slots for ranks of sharded jobs that are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class ClusterReplicasTest : public ::testing::Test {
 protected:
  ClusterReplicasTest() : cluster_(Options()) {}

  static Cluster::Options Options() {
    Cluster::Options options;
    options.node_lease = absl::Seconds(60);
    return options;
  }

  // Job 1, of two replicas of two ranks, trains on a and b, which have two slots each; c is free.
  void Train(ReplicaPlacement replica) {
    for (const char* name : {"a", "b"}) Join(name, 2, "", 0);
    Submit(/*shards=*/2, replica);
    ASSERT_EQ(Nodes(), "aabb");
    Join("c", 2, "", 2);
  }
  // A job of two replicas, which starts.
  void Submit(int shards, ReplicaPlacement replica) {
    JobRequest request = PlayedRequest();
    request.ranks = 2 * shards;
    request.shards = shards;
    request.placement.replica = replica;
    request.recovery.max_failures = 3;
    cluster_.Step(JobSubmitted{request}, At(1));
    Report({}, 2);
    ASSERT_EQ(job().state, JobState::kRunning);
  }
  void Join(const char* name, int slots, const char* island, double at) {
    NodeFacts facts = Facts(name, slots);
    facts.labels["island"] = island;
    cluster_.Step(NodeConnected{facts, {}}, At(at));
  }
  // All ranks train, but for those that have failed.
  void Report(const std::vector<int>& failed, double at) {
    std::map<NodeName, std::vector<TrainerReport>> reports;
    for (size_t r = 0; r < job().ranks.size(); ++r) {
      const int rank = static_cast<int>(r);
      TrainerReport report = PlayedReport(job(), rank, TrainerState::kRunning);
      report.membership.generation = job().generation;
      if (std::count(failed.begin(), failed.end(), rank) > 0) {
        report.state = TrainerState::kExited;
        report.exit = TrainerExit();
        report.exit->failure = FailureKind::kSignal;
        report.exit->message = "killed by SIGKILL";
      }
      reports[job().ranks[r].slot.node].push_back(report);
    }
    for (const auto& [node, trainers] : reports) {
      cluster_.Step(NodeReported{node, trainers}, At(at));
    }
  }
  void Cordon(const char* name, double at) {
    Hold hold;
    hold.owner = "ann";
    hold.reason = "its fan is loud";
    cluster_.Step(HoldRequested{NodeName(name), hold}, At(at));
  }
  const Job& job() { return cluster_.jobs().at(JobId("job-1")); }
  std::string Nodes() {
    std::string nodes;
    for (const RankState& rank : job().ranks) nodes += rank.slot.node.value();
    return nodes;
  }

  Cluster cluster_;
};

TEST_F(ClusterReplicasTest, RankComesBackToTheNodeOfItsReplica) {
  Train(ReplicaPlacement::kPrefer);
  Report({3}, 3);
  EXPECT_EQ(Nodes(), "aabb") << job().reason;
  EXPECT_EQ(job().generation, Generation(2));
}

TEST_F(ClusterReplicasTest, RankGoesElsewhereIfItsNodeTakesNone) {
  Train(ReplicaPlacement::kPrefer);
  Cordon("b", 3);
  Report({3}, 4);
  EXPECT_EQ(Nodes(), "aabc") << job().reason;
}

TEST_F(ClusterReplicasTest, RankWaitsForTheNodeOfItsReplicaIfThatIsRequired) {
  Train(ReplicaPlacement::kRequire);
  Cordon("b", 3);
  Report({3}, 4);
  EXPECT_EQ(job().generation, Generation(1));
  EXPECT_THAT(job().reason, HasSubstr("replica 1 (ranks 2 to 3) waits for 1 slot on node b "
                                      "(placement.replica: require)"));
  cluster_.Step(UncordonRequested{NodeName("b"), "ann"}, At(5));
  EXPECT_EQ(Nodes(), "aabb") << job().reason;
  EXPECT_EQ(job().generation, Generation(2));
}

TEST_F(ClusterReplicasTest, RequiredDomainOfARunningJobStaysWhatItIsWhenALargerNodeJoins) {
  for (const char* name : {"a", "b"}) Join(name, 2, "x", 0);
  for (const char* name : {"c", "d"}) Join(name, 2, "y", 0);
  Submit(/*shards=*/4, ReplicaPlacement::kRequire);
  ASSERT_EQ(Nodes(), "aabbccdd") << "each replica has an island";
  Join("e", 2, "x", 2);
  Join("f", 4, "y", 2);
  Cordon("b", 3);
  Report({3}, 4);
  EXPECT_EQ(Nodes(), "aabeccdd") << job().reason;
}

TEST_F(ClusterReplicasTest, ReplicaThatHasLostAllItsRanksGoesToAnotherNode) {
  Train(ReplicaPlacement::kRequire);
  Cordon("b", 3);
  Report({2, 3}, 4);
  EXPECT_EQ(Nodes(), "aacc") << job().reason;
}

}  // namespace
}  // namespace paceline
