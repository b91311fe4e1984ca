#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/cluster/cluster.h"
#include "controller/store/records.h"
#include "controller/store/testing/memory_store.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

class NodeRecordsTest : public ::testing::Test {
 protected:
  NodeRecordsTest() {
    NodeFacts facts;
    facts.name = NodeName("a");
    facts.uid = "uid";
    cluster_.Step(NodeConnected{facts, {}}, At(0));
  }

  // The node as it is loaded from a store.
  Node Again() {
    MemoryStore store;
    const Node& node = cluster_.nodes().at(NodeName("a"));
    EXPECT_TRUE(store.Commit({{{NodeKey(node.facts.name), EncodeNode(node, cluster_)}}, {}}).ok());
    return LoadState(store)->nodes.at(0);
  }

  Cluster cluster_{Cluster::Options()};
};

TEST_F(NodeRecordsTest, HoldsAndHistoryComeBack) {
  Hold cordon;
  cordon.owner = "ann";
  cordon.reason = "racks move";
  cluster_.Step(HoldRequested{NodeName("a"), cordon}, At(1));
  Hold drain = cordon;
  drain.drain = DrainMode::kCheckpoint;
  drain.until = At(60).wall;
  cluster_.Step(HoldRequested{NodeName("a"), drain}, At(2));
  const Node again = Again();
  ASSERT_EQ(again.holds.size(), 2u);
  EXPECT_FALSE(again.holds[0].drain.has_value());
  EXPECT_EQ(again.holds[0].until, absl::InfiniteFuture());
  EXPECT_EQ(again.holds[1].drain, DrainMode::kCheckpoint);
  EXPECT_EQ(again.holds[1].owner, "ann");
  EXPECT_EQ(again.holds[1].reason, "racks move");
  EXPECT_EQ(again.holds[1].since, At(2).wall);
  EXPECT_EQ(again.holds[1].until, At(60).wall);
  ASSERT_EQ(again.history.size(), 3u);
  EXPECT_EQ(again.history[0].state, NodeState::kReady);
  EXPECT_EQ(again.history[2].state, NodeState::kDrained);
  EXPECT_EQ(again.history[2].who, "ann");
  EXPECT_EQ(again.history[2].what, "drain (checkpoint, deadline in 58s): racks move");
  EXPECT_EQ(again.history[2].time, At(2).wall);
}

TEST_F(NodeRecordsTest, WhatItsTrainersKnowComesBack) {
  EXPECT_EQ(Again().facts.spec_version, 0);
  NodeFacts facts;
  facts.name = NodeName("a");
  facts.uid = "uid";
  facts.spec_version = 3;
  cluster_.Step(NodeConnected{facts, {}}, At(1));
  EXPECT_EQ(Again().facts.spec_version, 3);
}

TEST_F(NodeRecordsTest, LostNodeStaysLost) {
  cluster_.Step(NodeDisconnected{NodeName("a")}, At(1));
  EXPECT_EQ(Again().contact, Contact::kUnreachable);
  cluster_.Step(LossDeclared{NodeName("a"), "ann", "burnt"}, At(2));
  Cluster again{Cluster::Options()};
  again.Restore({}, {Again()}, At(100));
  EXPECT_EQ(again.nodes().at(NodeName("a")).state, NodeState::kLost);
  EXPECT_EQ(again.nodes().at(NodeName("a")).reason, "declared lost by ann: burnt");
}

TEST_F(NodeRecordsTest, ChecksComeBackWithTheirHistory) {
  for (int id = 1; id <= 2; ++id) {
    cluster_.Step(CheckRequested{NodeName("a")}, At(id));
    CheckResult result;
    result.id = id;
    result.measurements = {{"gemm", 100.0 * id, "GFLOP/s", true}};
    cluster_.Step(NodeReported{NodeName("a"), {}, {}, result}, At(id + 0.5));
  }
  NodeFacts peer;
  peer.name = NodeName("b");
  peer.probe_address = "b:7070";
  cluster_.Step(NodeConnected{peer, {}}, At(3));
  cluster_.Step(CheckRequested{NodeName("a")}, At(3));
  const NodeChecks checks = Again().checks;
  EXPECT_EQ(checks.asked, 3);
  EXPECT_TRUE(checks.running);
  EXPECT_EQ(checks.begun, At(3).wall);
  EXPECT_EQ(checks.peer, "b");
  EXPECT_EQ(checks.peer_address, "b:7070");
  EXPECT_EQ(checks.result->id, 2);
  EXPECT_EQ(checks.result->measurements[0].value, 200);
  EXPECT_EQ(checks.result->measurements[0].own_median, 100);
  EXPECT_THAT(checks.earlier.at("gemm"), ElementsAre(100));
}

TEST_F(NodeRecordsTest, PauseOfTheAutomationComesBack) {
  MemoryStore store;
  const Automation paused{true, "brake", "2 of 4 nodes", At(5).wall};
  ASSERT_TRUE(store.Commit({{{kAutomationKey, EncodeAutomation(paused)}}, {}}).ok());
  const Automation again = LoadState(store)->automation;
  EXPECT_TRUE(again.paused);
  EXPECT_EQ(again.owner, "brake");
  EXPECT_EQ(again.reason, "2 of 4 nodes");
  EXPECT_EQ(again.since, At(5).wall);
  ASSERT_TRUE(store.Commit({{{kAutomationKey, EncodeAutomation(Automation())}}, {}}).ok());
  EXPECT_FALSE(LoadState(store)->automation.paused);
}

}  // namespace
}  // namespace paceline
