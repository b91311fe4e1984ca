// Checks of nodes, which a cluster asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

class ClusterChecksTest : public ::testing::Test {
 protected:
  const Node& node(const char* name) { return cluster_.nodes().at(NodeName(name)); }

  Cluster cluster_{Cluster::Options()};
};

TEST_F(ClusterChecksTest, CheckIsAskedForUntilItsResultIsThere) {
  for (const char* name : {"a", "b"}) cluster_.Step(NodeConnected{Facts(name), {}}, At(0));
  EXPECT_FALSE(cluster_.CheckFor(NodeName("a")).has_value());
  Actions actions = cluster_.Step(CheckRequested{NodeName("a")}, At(1));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a")));
  ASSERT_TRUE(cluster_.CheckFor(NodeName("a")).has_value());
  EXPECT_EQ(cluster_.CheckFor(NodeName("a"))->id, 1);
  EXPECT_EQ(cluster_.CheckFor(NodeName("a"))->peer_address, "") << "none lets itself be measured";
  CheckResult result;
  result.id = 1;
  result.measurements = {{"gemm", 100, "GFLOP/s", true}};
  actions = cluster_.Step(NodeReported{NodeName("a"), {}, {}, result}, At(2));
  EXPECT_THAT(actions.store_nodes, ElementsAre(NodeName("a")));
  EXPECT_FALSE(cluster_.CheckFor(NodeName("a")).has_value());
  EXPECT_EQ(node("a").checks.result->time, At(2).wall);

  cluster_.Step(CheckRequested{NodeName("b")}, At(3));
  result.measurements[0].value = 70;
  cluster_.Step(NodeReported{NodeName("b"), {}, {}, result}, At(4));
  const Measurement& slow = node("b").checks.result->measurements[0];
  EXPECT_EQ(slow.peer_median, 100);
  EXPECT_TRUE(slow.bad);
}

TEST_F(ClusterChecksTest, NetworkIsMeasuredWithAnIdleNodeOfTheRack) {
  const auto join = [&](const char* name, const char* rack, bool busy) {
    NodeFacts facts = Facts(name);
    facts.labels["rack"] = rack;
    facts.probe_address = absl::StrCat(name, ":7070");
    TrainerReport trainer;
    trainer.id = {JobId("job-9"), Generation(1), Rank(0)};
    trainer.state = TrainerState::kRunning;
    std::vector<TrainerReport> trainers;
    if (busy) trainers.push_back(trainer);
    cluster_.Step(NodeConnected{facts, trainers}, At(0));
  };
  join("a", "2", false);
  join("b", "1", false);
  join("c", "1", true);
  const auto peer = [&] {
    cluster_.Step(CheckRequested{NodeName("b")}, At(1));
    return cluster_.CheckFor(NodeName("b"))->peer_address;
  };
  EXPECT_EQ(peer(), "c:7070") << "the rack counts most";
  join("e", "1", false);
  join("d", "1", false);
  EXPECT_EQ(peer(), "d:7070");
  cluster_.Step(NodeDisconnected{NodeName("d")}, At(2));
  EXPECT_EQ(peer(), "e:7070");
  CheckResult result;
  result.id = 3;
  cluster_.Step(NodeReported{NodeName("b"), {}, {}, result}, At(3));
  EXPECT_EQ(node("b").checks.result->peer, "e");
}

}  // namespace
}  // namespace paceline
