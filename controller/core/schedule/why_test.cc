#include "controller/core/schedule/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/small_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(10000);

class WhyTest : public ::testing::Test {
 protected:
  Node& AddNode(const char* name, int slots, SmallCluster::Labels labels = {}) {
    cluster_.AddNode(name, slots, labels);
    Node& node = nodes_[NodeName(name)];
    node.facts.name = NodeName(name);
    node.facts.slots = slots;
    node.facts.labels = std::move(labels);
    node.contact = Contact::kReachable;
    return node;
  }

  // The answer after a pass.
  std::vector<std::string> Why(const char* job) {
    for (auto& [name, node] : cluster_.nodes) node.open = IsOpenNow(nodes_.at(name));
    cluster_.Pass();
    return FindObstacles(
        {cluster_[job], cluster_.jobs, nodes_, cluster_.queues, cluster_.last, kNow});
  }

  static bool IsOpenNow(const Node& node) {
    return node.contact == Contact::kReachable && node.holds.empty();
  }

  SmallCluster cluster_;
  std::map<NodeName, Node> nodes_;
};

TEST_F(WhyTest, SlotsAreCountedAndEachKindOfClosedNodeIsNamed) {
  AddNode("a", 2);
  AddNode("b", 2).contact = Contact::kUnreachable;
  Hold cordon;
  cordon.owner = "ann";
  cordon.reason = "its fan is loud";
  AddNode("c", 3).holds.push_back(cordon);
  AddNode("d", 4, {{"taint.team", "vision"}});
  AddNode("e", 5, {{"kind", "old"}});
  AddNode("f", 1, {{"pool", "spare"}, {"kind", "new"}});
  cluster_.Submit("job", 9).request.placement.exclude_nodes = {NodeName("e")};
  EXPECT_THAT(
      Why("job"),
      ElementsAre("It needs 9 slots: 2 are free and 0 held by jobs, of those that it may use.",
                  "3 slots are on nodes that are cordoned by ann: its fan is loud (c).",
                  "2 slots are on nodes that do not answer (b).",
                  "1 slot is on nodes that are kept for spares (pool=spare) (f).",
                  "4 slots are on nodes that have the taint team=vision (d).",
                  "5 slots are on nodes that its placement.exclude_nodes name (e)."));
}

TEST_F(WhyTest, LabelThatIsMissingIsNamed) {
  AddNode("a", 2);
  cluster_.Submit("job", 1).request.placement.labels = {{"kind", "new"}};
  EXPECT_THAT(Why("job"), Contains(HasSubstr("lack the label kind=new (a)")));
}

// A worker sets this label by its flags, whatever --label says.
TEST_F(WhyTest, NodesThatReadNoObjectsOfStoresAreTold) {
  AddNode("a", 2);
  cluster_.Submit("job", 1).request.placement.labels = {{kObjectsLabel, kTakesObjects}};
  EXPECT_THAT(
      Why("job"),
      Contains(HasSubstr("read no objects of stores (--object-store of their workers) (a)")));
}

TEST_F(WhyTest, NodesWithRoomForTheirRanksAreCounted) {
  AddNode("a", 2);
  AddNode("b", 2);
  cluster_.Submit("running", 1);
  cluster_.Pass();
  cluster_.Submit("job", 4).request.placement.ranks_per_node = 2;
  EXPECT_THAT(Why("job"), Contains("It needs 2 nodes with 2 slots free: there is 1."));
}

TEST_F(WhyTest, ReplicasThatMustNotBeStretchedAreCounted) {
  AddNode("a", 4);
  AddNode("b", 4);
  cluster_.Submit("running", 1);
  cluster_.Pass();
  Job& job = cluster_.Submit("job", 4);
  job.request.shards = 4;
  job.request.placement.replica = ReplicaPlacement::kRequire;
  job.request.placement.nodes = {NodeName("a")};
  EXPECT_THAT(Why("job"), Contains("The 4 ranks of a replica have to be on one node "
                                   "(placement.replica: require): there is room for 0 of 1 "
                                   "replica."));
  EXPECT_EQ(cluster_.last.waits.at(JobId("job")).reason,
            "waits for 4 slots, the 4 of a replica on one node: 3 free now (for 0 replicas)");
}

TEST_F(WhyTest, WorkersThatNeedAnUpgradeAreNamed) {
  AddNode("a", 2).facts.spec_version = 1;
  cluster_.nodes[NodeName("a")].spec_version = 1;
  AddNode("b", 2);
  AddNode("c", 1);
  Job& job = cluster_.Submit("job", 4);
  job.request.placement.needs.Add(1, "sharded models");
  const char* const old =
      "3 slots are on nodes that need a worker of this release, for sharded models: upgrade "
      "paceline-worker there (b, c).";
  EXPECT_THAT(Why("job"), Contains(old));
  job.request.ranks = 2;
  cluster_.Pass();
  EXPECT_THAT(Why("job"), Not(Contains(old)));
  job.request.spares = 1;
  EXPECT_THAT(Why("job"), Contains(old));
  job.request.spares = 0;
  job.state = JobState::kRecovering;
  EXPECT_THAT(Why("job"), Contains(old));
  job.request.placement.needs = {};
  EXPECT_THAT(Why("job"), Not(Contains(old)));
}

TEST_F(WhyTest, WorkersWhoseUpgradeWouldNotHelpAreNotNamed) {
  const char* const upgrade = "upgrade paceline-worker";
  AddNode("a", 2, {{"pool", "spare"}});
  AddNode("b", 3, {{"taint.team", "vision"}});
  Job& job = cluster_.Submit("job", 1);
  job.request.placement.needs.Add(1, "outer steps");
  EXPECT_THAT(Why("job"),
              AllOf(Contains("2 slots are on nodes that are kept for spares (pool=spare) (a)."),
                    Contains("3 slots are on nodes that have the taint team=vision (b)."),
                    Not(Contains(HasSubstr(upgrade)))));
  job.request.placement.tolerate = {"team"};
  EXPECT_THAT(Why("job"), Contains(HasSubstr("outer steps: upgrade paceline-worker there (b).")));
}

TEST_F(WhyTest, WorkersOfThePoolAreNamedWhereTheyWouldDo) {
  AddNode("a", 2).facts.spec_version = 1;
  cluster_.nodes[NodeName("a")].spec_version = 1;
  AddNode("b", 2, {{"pool", "spare"}});
  Job& job = cluster_.Submit("job", 2);
  job.request.placement.needs.Add(1, "outer steps");
  const char* const old = "outer steps: upgrade paceline-worker there (b).";
  EXPECT_THAT(Why("job"), IsEmpty());
  job.request.spares = 1;
  EXPECT_THAT(Why("job"), Contains(HasSubstr(old))) << "a spare would come there";
  job.request.spares = 0;
  job.state = JobState::kRecovering;
  EXPECT_THAT(Why("job"), Contains(HasSubstr(old))) << "so would a replacement";
}

TEST_F(WhyTest, WorkersAreNamedThatAnElasticJobMayNotGrowInto) {
  AddNode("a", 2).facts.spec_version = 1;
  cluster_.nodes[NodeName("a")].spec_version = 1;
  AddNode("b", 2);
  Job& job = cluster_.SubmitElastic("job", 1, 2, 4);
  job.request.placement.needs.Add(1, "outer steps");
  EXPECT_THAT(Why("job"),
              ElementsAre(HasSubstr("outer steps: upgrade paceline-worker there (b).")));
  ASSERT_EQ(job.ranks.size(), 2U);
  job.request.recovery.max_ranks = 2;
  EXPECT_THAT(Why("job"), IsEmpty());
}

TEST_F(WhyTest, LostRankOfAReplicaIsToldWhereItHasToBe) {
  AddNode("a", 4);
  AddNode("b", 4);
  Job& job = cluster_.Submit("job", 4);
  job.request.shards = 2;
  job.request.placement.replica = ReplicaPlacement::kRequire;
  job.request.placement.ranks_per_node = 2;
  cluster_.Pass();
  job.request.placement.ranks_per_node = 0;
  for (size_t r = 0; r < job.ranks.size(); ++r) job.ranks[r].seat = static_cast<int>(r);
  job.state = JobState::kRecovering;
  job.reason = "rank 3 was killed";
  job.ranks[3].lost = "killed";
  EXPECT_THAT(Why("job"),
              Contains("The new ranks of replica 1 have to be on one node with its others, which "
                       "are on b (placement.replica: require)."));
  job.request.placement.replica = ReplicaPlacement::kPrefer;
  EXPECT_THAT(Why("job"), Not(Contains(HasSubstr("have to be"))));
}

TEST_F(WhyTest, HeadNamesItsReservationAndWhoHoldsIt) {
  AddNode("a", 2);
  cluster_.Submit("running", 1);
  cluster_.Pass();
  cluster_.Submit("head", 2, 1);
  cluster_.Submit("behind", 1);
  EXPECT_THAT(
      Why("head"),
      ElementsAre(HasSubstr("It needs 2 slots: 1 are free and 1 held"),
                  "Reserved for it are 2 on a.",
                  "There it waits for the end of job running (name-running).",
                  HasSubstr("not displaced since they save no checkpoints now: job running")));
  EXPECT_THAT(Why("behind"), Contains("It waits behind job head (name-head), which is ahead of it "
                                      "and has 2 slots reserved."));
}

TEST_F(WhyTest, JobsThatMakeRoomAreNamed) {
  AddNode("a", 1);
  cluster_.SubmitSaving("low", 1);
  cluster_.Pass();
  cluster_.Submit("high", 1, 1);
  cluster_.Pass();
  StopAfterSave stop;
  stop.requeue = true;
  stop.reason = "preempted by high";
  cluster_["low"].checkpoints.stop_after = stop;
  EXPECT_THAT(Why("high"),
              Contains("Room is made there by job low (name-low), which save or stop."));
  EXPECT_THAT(Why("low"),
              ElementsAre("It saves a checkpoint, and is then queued again: preempted by high."));
}

TEST_F(WhyTest, QuotaNamesItsHolders) {
  cluster_.queues["default"].slots = 2;
  AddNode("a", 8);
  cluster_.Submit("running", 1);
  cluster_.Pass();
  cluster_.Submit("job", 2);
  EXPECT_THAT(Why("job"), ElementsAre("Its queue default may hold 2 slots, and 1 are held (job "
                                      "running (name-running): 1); it needs 2."));
}

TEST_F(WhyTest, SavesThatFailAreToldWithTheirCauseAndWhatThereIsToGoOnFrom) {
  AddNode("a", 2);
  Job& job = cluster_.SubmitSaving("job", 2);
  EXPECT_THAT(Why("job"), IsEmpty());
  job.checkpoints.last_error = "save after step 9: rank 1 on a: no space left";
  EXPECT_THAT(Why("job"),
              ElementsAre("Its checkpoints cannot be saved, and it has none: save after "
                          "step 9: rank 1 on a: no space left."));
  Checkpoint checkpoint;
  checkpoint.key = {6, 1};
  checkpoint.created = kNow - absl::Minutes(90);
  job.checkpoints.records.push_back(checkpoint);
  EXPECT_THAT(Why("job"),
              ElementsAre("Its checkpoints cannot be saved (the newest is of step 6, 1h30m old): "
                          "save after step 9: rank 1 on a: no space left."));
}

TEST_F(WhyTest, RunningJobTellsWhatItLacks) {
  AddNode("a", 2);
  cluster_.Submit("job", 2).request.spares = 1;
  EXPECT_THAT(Why("job"),
              ElementsAre("1 of its 1 spares is missing: no slot is free for a spare where the job "
                          "may run."));
  cluster_["job"].request.spares = 0;
  EXPECT_THAT(Why("job"), IsEmpty());
}

TEST_F(WhyTest, ElasticJobSaysWhyItHasMoreRanksThanItWantsOrFewer) {
  AddNode("a", 4);
  Job& job = cluster_.Submit("job", 2);
  job.request.recovery.max_failures = 1;
  job.request.recovery.min_ranks = 1;
  job.request.recovery.max_ranks = 4;
  job.request.recovery.rule = BatchRule::kKeepRank;
  cluster_.Pass();
  ASSERT_EQ(job.ranks.size(), 2U);
  EXPECT_THAT(Why("job"), IsEmpty());
  job.recovery.idle_since = kNow;
  EXPECT_THAT(Why("job"), ElementsAre(HasSubstr("There are slots for more ranks; it grows into "
                                                "them, up to 4")));
  job.recovery.idle_since = absl::InfiniteFuture();
  job.ranks.emplace_back().slot = {NodeName("a"), 2};
  EXPECT_THAT(Why("job"), ElementsAre(HasSubstr("It trains with 3 ranks, 1 more than the 2 that "
                                                "it wants, since nobody else used their slots")));
  job.recovery.give_back_to = 2;
  job.recovery.give_back_for = "job 9 (other)";
  EXPECT_THAT(Why("job"), Contains(HasSubstr("It goes down to 2 ranks, as soon as no save or other "
                                             "change is under way: job 9 (other) waits for "
                                             "slots.")));
  job.recovery.give_back_to = 0;
  job.ranks.resize(1);
  EXPECT_THAT(Why("job"), ElementsAre(HasSubstr("It trains with 1 of its 2 ranks; the others start "
                                                "when there are slots that are not kept")));
}

TEST_F(WhyTest, ElasticJobThatWaitsSaysHowFewWouldDo) {
  AddNode("a", 4);
  cluster_.Submit("running", 3);
  cluster_.Pass();
  Job& job = cluster_.Submit("job", 4);
  job.request.recovery.min_ranks = 2;
  job.request.recovery.max_ranks = 4;
  job.request.recovery.rule = BatchRule::kKeepRank;
  EXPECT_THAT(Why("job"), Contains(HasSubstr("It needs 2 slots, and wants 4: 1 are free")));
}

}  // namespace
}  // namespace paceline
