#include "controller/core/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/small_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ScheduleTest : public ::testing::Test {
 protected:
  const Wait& wait(const char* job) { return cluster_.last.waits.at(JobId(job)); }

  std::string Victims() {
    std::string text;
    for (const auto& preemption : cluster_.last.preemptions) {
      absl::StrAppend(&text, text.empty() ? "" : " ", preemption.victim.value());
    }
    return text;
  }

  // What a cluster does with displaced jobs: it has them saved.
  void BeginToLeave() {
    for (const auto& preemption : cluster_.last.preemptions) {
      cluster_.jobs.at(preemption.victim).checkpoints.stop_after.emplace();
    }
  }

  SmallCluster cluster_;
};

TEST_F(ScheduleTest, QueueGoesBeforeJobPriorityBeforeSubmission) {
  cluster_.queues = {{"low", {-1}}, {"high", {1}}, {"default", {}}};
  cluster_.AddNode("a", 1);
  cluster_.Submit("1", 1, 9, "low");
  cluster_.Submit("2", 1);
  cluster_.Submit("3", 1);
  cluster_.Submit("4", 1, 5);
  cluster_.Submit("5", 1, -5, "high");
  std::string order;
  for (int i = 0; i < 5; ++i) {
    cluster_.Pass();
    order += cluster_.Started();
    cluster_.End(cluster_.Started());
  }
  EXPECT_EQ(order, "54231");
}

TEST_F(ScheduleTest, AllRanksStartOrNone) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 1);
  cluster_.Submit("4-ranks", 4);
  cluster_.Submit("3-ranks", 3);
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "3-ranks")
      << "which the larger one, that cannot run, does not stop";
  EXPECT_EQ(wait("4-ranks").kind, Wait::Kind::kSlots);
  EXPECT_THAT(wait("4-ranks").reason, HasSubstr("waits for 4 slots: 3 free now"));
}

TEST_F(ScheduleTest, LargeJobStartsAlthoughSmallOnesKeepComing) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 2);
  for (const char* job : {"s1", "s2", "s3", "s4"}) cluster_.Submit(job, 1);
  cluster_.Pass();
  cluster_.Submit("large", 3);
  for (int i = 5; i < 12 && cluster_["large"].state == JobState::kQueued; ++i) {
    cluster_.Submit(absl::StrCat("s", i), 1);
    cluster_.End(absl::StrCat("s", i - 4));
    cluster_.Pass();
  }
  EXPECT_EQ(cluster_["large"].state, JobState::kRunning);
}

TEST_F(ScheduleTest, WhatAReservationLeavesIsGivenToOthers) {
  cluster_.AddNode("a", 4);
  cluster_.AddNode("b", 4);
  for (const char* job : {"a-1", "a-2", "b-1"}) cluster_.Submit(job, 2);
  cluster_.Pass();
  cluster_.Submit("head", 5);
  cluster_.Submit("small-1", 1);
  cluster_.Submit("small-2", 1);
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "");
  EXPECT_EQ(wait("head").kind, Wait::Kind::kReservation);
  EXPECT_EQ(wait("small-2").behind, JobId("head"));
  EXPECT_EQ(wait("small-2").reason, "waits behind head (name-head)");
  cluster_.End("a-1");
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "small-1") << "the head needs all of b, and one slot of a";
  cluster_.End("b-1");
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "head");
}

TEST_F(ScheduleTest, ReservationStaysAndChangesOnlyForABetterOne) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 2);
  for (const char* job : {"1", "2", "3", "4"}) cluster_.Submit(job, 1);
  cluster_.Pass();
  cluster_.Submit("head", 2);
  cluster_.Pass();
  ASSERT_THAT(cluster_.last.reservations, SizeIs(1));
  EXPECT_EQ(cluster_.last.reservations[0].kept.count(NodeName("a")), 1u);
  cluster_.End("1");
  cluster_.Pass();
  EXPECT_EQ(cluster_.last.reservations[0].kept.count(NodeName("a")), 1u);
  cluster_.nodes[NodeName("a")].open = false;
  cluster_.Pass();
  EXPECT_EQ(cluster_.last.reservations[0].kept.count(NodeName("b")), 1u);
  cluster_.nodes[NodeName("a")].open = true;
  cluster_.Pass();
  EXPECT_EQ(cluster_.last.reservations[0].kept.count(NodeName("a")), 1u) << "lacks one less there";
}

TEST_F(ScheduleTest, JobsOfDisjointNodesEachHaveAReservation) {
  cluster_.AddNode("a", 2, {{"kind", "x"}});
  cluster_.AddNode("b", 2, {{"kind", "y"}});
  for (const char* kind : {"x", "y"}) {
    cluster_.Submit(absl::StrCat("running-", kind), 1).request.placement.labels = {{"kind", kind}};
  }
  cluster_.Pass();
  for (const char* kind : {"x", "y"}) {
    cluster_.Submit(absl::StrCat("large-", kind), 2).request.placement.labels = {{"kind", kind}};
    cluster_.Submit(absl::StrCat("small-", kind), 1).request.placement.labels = {{"kind", kind}};
  }
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "");
  EXPECT_EQ(wait("large-x").kind, Wait::Kind::kReservation);
  EXPECT_EQ(wait("large-y").kind, Wait::Kind::kReservation);
  EXPECT_EQ(wait("small-y").behind, JobId("large-y"));
}

TEST_F(ScheduleTest, EachJobNamesWhatItsUpgradeIsFor) {
  cluster_.AddNode("a", 2);
  cluster_.Submit("outer", 1).request.placement.needs.Add(1, "outer steps");
  cluster_.Submit("sharded", 1).request.placement.needs.Add(1, "sharded models");
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "");
  EXPECT_THAT(wait("outer").reason, HasSubstr("release, for outer steps: upgrade"));
  EXPECT_THAT(wait("sharded").reason, HasSubstr("release, for sharded models: upgrade"));
}

TEST_F(ScheduleTest, DevicesAreScheduledApart) {
  cluster_.AddNode("a", 1, {}, 1);
  cluster_.Submit("cpu-1", 1);
  cluster_.Submit("cpu-2", 1);
  cluster_.Submit("cuda", 1).request.device = Device::kCuda;
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "cpu-1 cuda");
}

TEST_F(ScheduleTest, QuotaHoldsBackTheJobsOfItsQueueOnly) {
  Queue narrow;
  narrow.slots = 4;
  cluster_.queues["narrow"] = narrow;
  cluster_.AddNode("a", 8);
  cluster_.Submit("running", 2, 0, "narrow");
  cluster_.Pass();
  cluster_.Submit("large", 3, 0, "narrow");
  cluster_.Submit("small", 1, 0, "narrow");
  cluster_.Submit("other", 1);
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "other");
  EXPECT_EQ(wait("large").kind, Wait::Kind::kQuota);
  EXPECT_THAT(wait("large").reason, HasSubstr("2 of its 4"));
  EXPECT_EQ(wait("small").kind, Wait::Kind::kQuota) << "it would keep the larger one waiting";
  cluster_.End("running");
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "large small");
}

TEST_F(ScheduleTest, SparesCountForTheQuotaAndAreLeftOutBeforeRanks) {
  cluster_.queues["default"].slots = 3;
  cluster_.AddNode("a", 8);
  cluster_.Submit("job", 2).request.spares = 2;
  cluster_.Pass();
  EXPECT_THAT(cluster_["job"].ranks, SizeIs(2));
  EXPECT_THAT(cluster_["job"].spares, SizeIs(1));
}

TEST_F(ScheduleTest, MissingSparesDoNotHoldUpTheJob) {
  cluster_.AddNode("a", 2);
  cluster_.Submit("job", 2).request.spares = 1;
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "job");
  EXPECT_THAT(cluster_["job"].spares, IsEmpty());
}

TEST_F(ScheduleTest, JobInAQueueThatIsGoneWaits) {
  cluster_.AddNode("a", 2);
  cluster_.Submit("job", 1, 0, "gone");
  cluster_.Pass();
  EXPECT_EQ(wait("job").kind, Wait::Kind::kQueueUnknown);
}

TEST_F(ScheduleTest, SettlingJobKeepsItsSlotsAndHoldsUpNobodyElse) {
  cluster_.AddNode("a", 2);
  cluster_.Submit("settling", 1);
  cluster_.Submit("hanging", 2);
  cluster_.Submit("1", 1);
  cluster_.Submit("2", 1);
  cluster_.settling = {{JobId("settling"), true}, {JobId("hanging"), false}};
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "1");
  EXPECT_EQ(wait("settling").kind, Wait::Kind::kSettlement);
  EXPECT_EQ(wait("2").behind, JobId("settling"));
}

TEST_F(ScheduleTest, FewestAndCheapestJobsAreDisplaced) {
  cluster_.AddNode("a", 8);
  cluster_.SubmitSaving("old-low", 2, -1);
  cluster_.Pass();
  cluster_.SubmitSaving("new-low", 2, -1);
  cluster_.SubmitSaving("normal", 4, 0);
  cluster_.Pass();
  cluster_.SubmitSaving("urgent-2", 2, 5);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "new-low") << "of the lowest priority the one that started last";
  cluster_.End("urgent-2");
  cluster_.SubmitSaving("urgent-4", 4, 5);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "old-low new-low") << "as lower priority goes before fewer";
  cluster_.End("urgent-4");
  cluster_.SubmitSaving("urgent-5", 5, 5);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "normal new-low") << "old-low is not needed";
}

TEST_F(ScheduleTest, DisplacedJobGivesItsSlotsToTheOneThatIsAheadAndNeverDisplacesIt) {
  cluster_.AddNode("a", 2);
  cluster_.SubmitSaving("low", 2, 0);
  cluster_.Pass();
  cluster_.SubmitSaving("high", 2, 1);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "low");
  BeginToLeave();
  cluster_.Submit("small", 1, 0);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "") << "what it makes free is counted on";
  cluster_.Requeue("low");
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "high");
  cluster_.Pass();
  EXPECT_EQ(Victims(), "");
  EXPECT_EQ(cluster_["low"].state, JobState::kQueued);
}

TEST_F(ScheduleTest, WhoIsNeverDisplaced) {
  cluster_.AddNode("a", 5);
  cluster_.Submit("saves-nothing", 1, -1);
  cluster_.SubmitSaving("equal", 1, 5);
  cluster_.SubmitSaving("starting", 1, -1);
  SaveOrder failed;
  failed.state = SaveOrder::State::kFailed;
  cluster_.SubmitSaving("cannot-save", 1, -1).checkpoints.order = failed;
  cluster_.SubmitSaving("stopping", 1, -1);
  cluster_.Pass();
  cluster_["starting"].state = JobState::kStarting;
  cluster_["cannot-save"].checkpoints.order->generation = cluster_["cannot-save"].generation;
  cluster_["stopping"].state = JobState::kStopping;
  cluster_.SubmitSaving("urgent", 2, 5);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "");
  cluster_["cannot-save"].generation = Generation(9);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "cannot-save") << "in another generation it may be able to";
}

TEST_F(ScheduleTest, NobodyIsDisplacedInVain) {
  cluster_.AddNode("a", 2, {{"rack", "1"}});
  cluster_.AddNode("b", 2, {{"rack", "2"}});
  cluster_.SubmitSaving("low-1", 2, 0);
  cluster_.Submit("low-2", 1, 0);
  cluster_.Pass();
  cluster_.SubmitSaving("urgent", 4, 1);
  cluster_.Pass();
  EXPECT_EQ(Victims(), "") << "low-2 would stay";
  cluster_.End("urgent");
  cluster_.SubmitSaving("of-a-rack", 2, 1).request.placement.same = "rack";
  cluster_.Pass();
  EXPECT_EQ(Victims(), "low-1") << "although a slot is free in the other rack";
}

TEST_F(ScheduleTest, SmallJobOfOneGroupDoesNotHideTheRoomOfALargerGroup) {
  cluster_.AddNode("a", 2, {{"rack", "1"}});
  cluster_.AddNode("b", 4, {{"rack", "2"}});
  cluster_.Submit("small", 2).request.placement.same = "rack";
  cluster_.Submit("large", 4).request.placement.same = "rack";
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "large small");
}

TEST_F(ScheduleTest, RanksPerNodeHaveWholeNodesReservedAndMakeRoomThere) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 3);
  cluster_.AddNode("c", 3);
  cluster_.SubmitSaving("low-1", 1, 0).request.placement.nodes = {NodeName("a")};
  cluster_.SubmitSaving("low-2", 2, 0).request.placement.nodes = {NodeName("b")};
  cluster_.SubmitSaving("low-3", 1, 0).request.placement.nodes = {NodeName("c")};
  cluster_.Pass();
  Job& even = cluster_.SubmitSaving("even", 4, 1);
  even.request.placement.ranks_per_node = 2;
  cluster_.Pass();
  EXPECT_EQ(Victims(), "low-2") << "4 slots are free, 2 of them on c, where low-3 may stay";
  cluster_.Requeue("low-2");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("even"), "b0 b1 c1 c2");
}

TEST_F(ScheduleTest, PlacesThatComeCountOnlyWhereAllRanksOfANodeFit) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 2);
  cluster_.Submit("one", 1).request.placement.nodes = {NodeName("a")};
  cluster_.Submit("two", 1).request.placement.nodes = {NodeName("b")};
  cluster_.Pass();
  cluster_.Submit("even", 2).request.placement.ranks_per_node = 2;
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "");
  EXPECT_EQ(wait("even").reason, "waits for 2 slots on one node: 2 free now (2 on 0 nodes)");
  cluster_.End("two");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("even"), "b0 b1");
}

TEST_F(ScheduleTest, QueuePriorityDisplacesToo) {
  cluster_.queues["high"] = {1};
  cluster_.AddNode("a", 1);
  cluster_.SubmitSaving("low", 1, 100);
  cluster_.Pass();
  cluster_.SubmitSaving("high", 1, -100, "high");
  cluster_.Pass();
  EXPECT_EQ(Victims(), "low");
}

class ShardedScheduleTest : public ScheduleTest {
 protected:
  Job& Submit(const std::string& name, int replicas, int shards, int priority = 0) {
    Job& job = cluster_.SubmitSaving(name, replicas * shards, priority);
    job.request.shards = shards;
    job.request.placement.replica = ReplicaPlacement::kRequire;
    return job;
  }

  // A job of one rank on that node.
  void Hold(const std::string& name, const std::string& node) {
    cluster_.SubmitSaving(name, 1).request.placement.nodes = {NodeName(node)};
    cluster_.Pass();
  }
};

TEST_F(ShardedScheduleTest, WaitsWithFreeSlotsHasItsNodeReservedAndStarts) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 2);
  Hold("1", "a");
  Hold("2", "b");
  Submit("job", 1, 2);
  Job& stretched = Submit("stretched", 1, 2);
  stretched.request.placement.replica = ReplicaPlacement::kPrefer;
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "") << "a slot is free on each node, one of them reserved";
  EXPECT_EQ(wait("job").kind, Wait::Kind::kReservation);
  cluster_.End("2");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("job"), "b0 b1") << "wherever it fits first";
  cluster_.End("1");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("stretched"), "a0 a1");
}

TEST_F(ShardedScheduleTest, ReservesWholeDomainsForReplicasLargerThanNodes) {
  for (const char* island : {"x", "y"}) {
    for (int n = 0; n < 2; ++n) {
      cluster_.AddNode(absl::StrCat(island, n), 2, {{"island", island}});
    }
  }
  Hold("1", "x0");
  Hold("2", "y0");
  Hold("3", "y1");
  Submit("job", 1, 4);
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "") << "5 slots are free";
  ASSERT_THAT(cluster_.last.reservations, SizeIs(1));
  const std::map<NodeName, int> island = {{NodeName("x0"), 2}, {NodeName("x1"), 2}};
  EXPECT_EQ(cluster_.last.reservations[0].kept, island) << "which lacks one slot, the other two";
  cluster_.End("1");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("job"), "x00 x01 x10 x11");
}

TEST_F(ShardedScheduleTest, DisplacesWhatMakesRoomForAWholeReplica) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 3);
  Hold("low-1", "a");
  Hold("low-2", "b");
  Hold("low-3", "b");
  Submit("urgent", 1, 2, 1);
  cluster_.Pass();
  EXPECT_EQ(cluster_.Started(), "");
  EXPECT_EQ(Victims(), "low-3") << "2 slots are free, but on two nodes";
  cluster_.Requeue("low-3");
  cluster_.Pass();
  EXPECT_EQ(cluster_.SlotsOf("urgent"), "b1 b2");
}

}  // namespace
}  // namespace paceline
