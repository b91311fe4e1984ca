#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Hold HoldBy(const char* owner, std::optional<DrainMode> drain, double until = 0) {
  Hold hold;
  hold.drain = drain;
  hold.owner = owner;
  hold.reason = "its fan is loud";
  if (until > 0) hold.until = At(until).wall;
  return hold;
}

class ClusterNodesTest : public ::testing::Test {
 protected:
  ClusterNodesTest() : cluster_(Options()) {}

  static Cluster::Options Options() {
    Cluster::Options options;
    options.node_lease = absl::Seconds(60);
    return options;
  }

  void Join(const std::vector<const char*>& names, double at = 0) {
    for (const char* name : names) cluster_.Step(NodeConnected{Facts(name), {}}, At(at));
  }
  // Job 1, of two ranks, trains on a and b.
  void Train(const std::string& directory = "/ckpt", int max_failures = 0) {
    JobRequest request = PlayedRequest();
    request.recovery.max_failures = max_failures;
    request.checkpoints.directory = directory;
    cluster_.Step(JobSubmitted{request}, At(1));
    TellAll(TrainerState::kRunning, 2);
    ASSERT_EQ(job().state, JobState::kRunning);
  }
  TrainerReport ReportOf(int rank, TrainerState state) {
    TrainerReport report = PlayedReport(job(), rank, state);
    if (state == TrainerState::kExited) report.exit = TrainerExit();
    report.membership.generation = job().generation;  // It has trained, and so has its state.
    return report;
  }
  // Each node of the job reports its rank. Returns the actions.
  void TellAll(TrainerState state, double at) {
    const std::vector<RankState> ranks = job().ranks;
    for (size_t r = 0; r < ranks.size(); ++r) {
      cluster_.Step(NodeReported{ranks[r].slot.node, {ReportOf(static_cast<int>(r), state)}},
                    At(at));
    }
  }
  Actions Drain(const char* name, DrainMode mode, double at, double until = 0) {
    return cluster_.Step(HoldRequested{NodeName(name), HoldBy("ann", mode, until)}, At(at));
  }
  const Job& job() { return cluster_.jobs().at(JobId("job-1")); }
  const Node& node(const char* name) { return cluster_.nodes().at(NodeName(name)); }
  NodeState state(const char* name) { return node(name).state; }

  Cluster cluster_;
};

TEST_F(ClusterNodesTest, TheNextDeadlineIsThatOfTheNodeThatWasHeardOfLongestAgo) {
  Join({"a"}, 0);
  Join({"b"}, 1);
  EXPECT_EQ(cluster_.NextDeadline(), At(10).steady);
  cluster_.Step(NodeReported{NodeName("a"), {}}, At(5));
  EXPECT_EQ(cluster_.NextDeadline(), At(11).steady);
  cluster_.Step(NodeDisconnected{NodeName("b")}, At(6));
  EXPECT_EQ(cluster_.NextDeadline(), At(15).steady);
}

TEST_F(ClusterNodesTest, CordonedNodeTakesNoRanksUntilItIsFree) {
  Join({"a", "b"});
  Actions actions = cluster_.Step(HoldRequested{NodeName("a"), HoldBy("ann", std::nullopt)}, At(1));
  EXPECT_THAT(actions.store_nodes, ElementsAre(NodeName("a")));
  EXPECT_THAT(actions.show_nodes, ElementsAre(NodeName("a")));
  EXPECT_EQ(state("a"), NodeState::kCordoned);
  cluster_.Step(JobSubmitted{PlayedRequest()}, At(2));
  EXPECT_EQ(job().state, JobState::kQueued);
  actions = cluster_.Step(HoldRequested{NodeName("a"), HoldBy("ann", std::nullopt)}, At(3));
  EXPECT_THAT(actions.store_nodes, IsEmpty()) << "a repeat changes nothing";
  cluster_.Step(UncordonRequested{NodeName("a"), "bob"}, At(4));
  EXPECT_EQ(state("a"), NodeState::kCordoned) << "not his";
  cluster_.Step(UncordonRequested{NodeName("a"), "ann"}, At(5));
  EXPECT_EQ(state("a"), NodeState::kReady);
  EXPECT_EQ(job().state, JobState::kStarting);
}

TEST_F(ClusterNodesTest, DrainThatLetsJobsFinishIsOverWhenNothingRuns) {
  Join({"a", "b"});
  Train();
  Drain("b", DrainMode::kFinish, 3);
  EXPECT_EQ(state("b"), NodeState::kDraining);
  EXPECT_EQ(job().state, JobState::kRunning);
  TellAll(TrainerState::kExited, 4);
  EXPECT_EQ(job().state, JobState::kSucceeded);
  EXPECT_EQ(state("b"), NodeState::kDrained);
  EXPECT_EQ(node("b").history.back().what, "nothing runs there any more");
  EXPECT_EQ(cluster_.Step(NodeResumeRequested{NodeName("b"), "bob"}, At(5)).store_nodes.size(), 1u);
  EXPECT_EQ(state("b"), NodeState::kReady);
}

TEST_F(ClusterNodesTest, NodeIsDrainedWhenAnotherNodesReportEndsTheJobThere) {
  Join({"a", "b"});
  Train("");
  Drain("b", DrainMode::kFinish, 3);
  cluster_.Step(NodeReported{NodeName("b"), {ReportOf(1, TrainerState::kExited)}}, At(4));
  EXPECT_EQ(state("b"), NodeState::kDraining);
  const Actions actions =
      cluster_.Step(NodeReported{NodeName("a"), {ReportOf(0, TrainerState::kExited)}}, At(5));
  EXPECT_EQ(job().state, JobState::kSucceeded);
  EXPECT_EQ(state("b"), NodeState::kDrained);
  EXPECT_THAT(actions.show_nodes, Contains(NodeName("b")));
}

TEST_F(ClusterNodesTest, TrainerThatIsNotWantedKeepsANodeFromBeingDrained) {
  Join({"a"});
  TrainerReport stray;
  stray.id = {JobId("job-9"), Generation(1), Rank(0)};
  stray.state = TrainerState::kRunning;
  cluster_.Step(NodeReported{NodeName("a"), {stray}}, At(1));
  Drain("a", DrainMode::kSwap, 2);
  EXPECT_EQ(state("a"), NodeState::kDraining);
  cluster_.Step(NodeReported{NodeName("a"), {}}, At(3));
  EXPECT_EQ(state("a"), NodeState::kDrained);
}

TEST_F(ClusterNodesTest, DrainByCheckpointSavesAndGoesOnElsewhereWithoutARestart) {
  Join({"a", "b"});
  Train();
  Drain("b", DrainMode::kCheckpoint, 3);
  ASSERT_TRUE(job().checkpoints.order.has_value());
  EXPECT_THAT(job().reason, HasSubstr("node b is drained (checkpoint) by ann"));
  Join({"c"}, 3);
  const int64_t order = job().checkpoints.order->number;
  for (const SaveState saved : {SaveState::kDurable, SaveState::kCommitted}) {
    for (int rank = 0; rank < 2; ++rank) {
      TrainerReport report = ReportOf(rank, TrainerState::kRunning);
      report.saves = {Reported(40, rank == 0 ? saved : SaveState::kDurable, order)};
      cluster_.Step(NodeReported{NodeName(rank == 0 ? "a" : "b"), {report}}, At(4));
    }
  }
  EXPECT_EQ(job().state, JobState::kStopping);
  TellAll(TrainerState::kExited, 5);
  EXPECT_EQ(job().restarts, 0);
  EXPECT_EQ(state("b"), NodeState::kDrained);
  // First a daemon scans the directory.
  const CheckpointTask task = cluster_.TasksFor(NodeName("a")).at(0);
  CheckpointTaskResult result;
  result.task = task;
  result.found = {{{40, 1}, 200, 2, At(4).wall}};
  cluster_.Step(NodeReported{NodeName("a"), {}, {result}}, At(7));
  EXPECT_EQ(job().state, JobState::kStarting);
  EXPECT_THAT(job().nodes, ElementsAre(NodeName("a"), NodeName("c")));
  EXPECT_EQ(job().restored_from, "/ckpt/job-1/step-000000000040.g1");
}

TEST_F(ClusterNodesTest, JobWhoseSaveFailsTrainsOnAndIsAskedAgain) {
  Join({"a", "b"});
  Train();
  Drain("b", DrainMode::kCheckpoint, 3);
  TrainerReport report = ReportOf(0, TrainerState::kRunning);
  report.saves = {Reported(40, SaveState::kFailed, job().checkpoints.order->number)};
  cluster_.Step(NodeReported{NodeName("a"), {report}}, At(4));
  EXPECT_EQ(job().state, JobState::kRunning);
  EXPECT_THAT(job().reason, HasSubstr("could not be saved"));
  EXPECT_EQ(job().checkpoints.order->number, 1);
  TellAll(TrainerState::kRunning, 63);
  EXPECT_EQ(job().checkpoints.order->number, 2);
}

TEST_F(ClusterNodesTest, DeadlineEndsWhatIsLeft) {
  Join({"a", "b"});
  Train("");
  Drain("b", DrainMode::kCheckpoint, 3, 60);
  EXPECT_EQ(job().state, JobState::kRunning) << "it has nothing to move with";
  TellAll(TrainerState::kRunning, 59);
  EXPECT_EQ(cluster_.NextDeadline(), At(60).steady);
  const Actions actions = cluster_.Step(TimePassed{}, At(60));
  EXPECT_EQ(job().state, JobState::kStopping);
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(node("b").holds[0].drain, DrainMode::kNow);
  TellAll(TrainerState::kExited, 61);
  EXPECT_EQ(job().state, JobState::kQueued);
  EXPECT_EQ(job().restarts, 0);
  EXPECT_THAT(job().reason, HasSubstr("node b is drained (now) by ann"));
}

TEST_F(ClusterNodesTest, RanksMoveToWhereThereIsRoomAndTheDrainCanBeTakenBack) {
  Join({"a", "b"});
  Train("/ckpt", 3);
  EXPECT_EQ(cluster_.EffectsOfDrain(NodeName("b"), DrainMode::kSwap, At(3)).at(0).missing, 1);
  Join({"c"}, 3);
  const DrainEffect effect = cluster_.EffectsOfDrain(NodeName("b"), DrainMode::kSwap, At(3)).at(0);
  EXPECT_EQ(effect.missing, 0);
  EXPECT_EQ(effect.text, "rank 1 moves to a new trainer on c while the job trains on");
  Drain("b", DrainMode::kSwap, 4);
  EXPECT_EQ(state("b"), NodeState::kDraining);
  EXPECT_EQ(job().state, JobState::kRunning);
  EXPECT_EQ(job().recovery.vacate.count(NodeName("b")), 1u);
  cluster_.Step(NodeResumeRequested{NodeName("b"), "ann"}, At(5));
  EXPECT_THAT(job().recovery.vacate, IsEmpty());
  EXPECT_EQ(state("b"), NodeState::kReady);
}

TEST_F(ClusterNodesTest, DrainForNowEndsOnlyTheRanksOfAJobThatRecovers) {
  Join({"a", "b", "c"});
  Train("", 3);
  Drain("b", DrainMode::kNow, 3);
  EXPECT_EQ(job().state, JobState::kRecovering);
  EXPECT_EQ(job().restarts, 0);
}

TEST_F(ClusterNodesTest, DrainForNowWaitsWhileNoNodeOfAJobAnswers) {
  Join({"a", "b", "c"});
  Train("", 3);
  const auto effect = [&](double at) {
    return cluster_.EffectsOfDrain(NodeName("b"), DrainMode::kNow, At(at)).at(0).text;
  };
  EXPECT_THAT(effect(3), HasSubstr("rank 1 ends at once"));
  EXPECT_THAT(effect(6), HasSubstr("rank 1 does not end yet"));
  Drain("b", DrainMode::kNow, 6);
  EXPECT_THAT(job().recovery.waiting_drains, IsEmpty()) << "the nodes are only late";
  cluster_.Step(TimePassed{}, At(20));
  EXPECT_EQ(job().state, JobState::kRunning);
  EXPECT_THAT(job().recovery.waiting_drains, SizeIs(1));
  for (const int at : {21, 22}) {
    cluster_.Step(NodeReported{NodeName("a"), {ReportOf(0, TrainerState::kRunning)}}, At(at));
  }
  EXPECT_EQ(job().state, JobState::kRecovering);
  EXPECT_THAT(job().recovery.waiting_drains, IsEmpty());
}

TEST_F(ClusterNodesTest, LeaseThatRunsOutTakesTheRanksOfAJobThatRecovers) {
  Join({"a", "b", "c"});
  Train("", 3);
  for (const char* name : {"a", "c"}) {
    std::vector<TrainerReport> reports;
    if (name[0] == 'a') reports.push_back(ReportOf(0, TrainerState::kRunning));
    cluster_.Step(NodeReported{NodeName(name), reports}, At(67));
  }
  cluster_.Step(TimePassed{}, At(68));
  EXPECT_EQ(state("b"), NodeState::kLost);
  EXPECT_EQ(job().state, JobState::kRecovering);
}

TEST_F(ClusterNodesTest, RanksThatAreCutOffTogetherAreGivenToNobody) {
  Join({"a", "b", "c", "d"});
  Train("", 3);
  const auto tell = [&](const char* name, int rank, double at) {
    cluster_.Step(NodeReported{NodeName(name), {ReportOf(rank, TrainerState::kRunning)}}, At(at));
  };
  const auto free_nodes = [&](double at) {
    for (const char* name : {"c", "d"}) cluster_.Step(NodeReported{NodeName(name), {}}, At(at));
  };
  free_nodes(67);
  cluster_.Step(TimePassed{}, At(69));
  EXPECT_EQ(state("a"), NodeState::kLost);
  EXPECT_EQ(state("b"), NodeState::kLost);
  EXPECT_EQ(job().state, JobState::kRunning);
  EXPECT_THAT(job().reason, HasSubstr("none of its nodes answers"));

  // The return of the first node does not condemn the other.
  free_nodes(100);
  tell("a", 0, 100);
  tell("a", 0, 109);
  cluster_.Step(TimePassed{}, At(109.5));
  EXPECT_EQ(job().state, JobState::kRunning);
  tell("b", 1, 109.7);
  for (int at = 110; at < 130; ++at) {
    tell("a", 0, at);
    tell("b", 1, at);
    free_nodes(at);
    cluster_.Step(TimePassed{}, At(at));
  }
  EXPECT_EQ(job().state, JobState::kRunning);
  EXPECT_EQ(job().generation, Generation(1));
}

TEST_F(ClusterNodesTest, RankThatStaysAwayWhenItsPeerIsBackIsReplaced) {
  Join({"a", "b", "c"});
  Train("", 3);
  cluster_.Step(NodeReported{NodeName("c"), {}}, At(67));
  cluster_.Step(TimePassed{}, At(69));
  for (int at = 100; at <= 111; ++at) {
    cluster_.Step(NodeReported{NodeName("a"), {ReportOf(0, TrainerState::kRunning)}}, At(at));
    cluster_.Step(NodeReported{NodeName("c"), {}}, At(at));
    cluster_.Step(TimePassed{}, At(at));
    EXPECT_EQ(job().state, at < 110 ? JobState::kRunning : JobState::kRecovering) << at;
  }
}

TEST_F(ClusterNodesTest, DrainGoesOnAfterARestartOfTheController) {
  Join({"a", "b"});
  Train();
  Drain("b", DrainMode::kFinish, 3, 60);
  Cluster again(Options());
  again.Restore({job()}, {node("a"), node("b")}, At(20));
  EXPECT_EQ(again.NextDeadline(), At(60).steady);
  for (int r = 0; r < 2; ++r) {
    again.Step(NodeConnected{Facts(r == 0 ? "a" : "b"), {ReportOf(r, TrainerState::kRunning)}},
               At(21));
  }
  EXPECT_EQ(again.nodes().at(NodeName("b")).state, NodeState::kDraining);
  EXPECT_EQ(again.nodes().at(NodeName("b")).history.size(), node("b").history.size());
}

TEST_F(ClusterNodesTest, LeaseThatRunsOutLosesTheNodeAndLeavesJobsThatDoNotRecover) {
  Join({"a", "b"});
  Train();
  cluster_.Step(NodeReported{NodeName("a"), {ReportOf(0, TrainerState::kRunning)}}, At(60));
  const Actions actions = cluster_.Step(TimePassed{}, At(68));
  EXPECT_EQ(state("a"), NodeState::kReady);
  EXPECT_EQ(state("b"), NodeState::kLost);
  EXPECT_THAT(actions.store_nodes, ElementsAre(NodeName("b")));
  EXPECT_EQ(job().state, JobState::kRunning);
  cluster_.Step(NodeConnected{Facts("b"), {ReportOf(1, TrainerState::kRunning)}}, At(100));
  EXPECT_EQ(state("b"), NodeState::kReady);
  EXPECT_EQ(job().state, JobState::kRunning);
  cluster_.Step(TimePassed{}, At(200));
  cluster_.Step(LossDeclared{NodeName("b"), "ann", "burnt"}, At(201));
  EXPECT_EQ(node("b").history.back().who, "ann");
  EXPECT_EQ(job().state, JobState::kStopping) << "a person says more than a lease";
}

TEST_F(ClusterNodesTest, NodeDeclaredLostTakesItsRanksWithIt) {
  Join({"a", "b"});
  Train();
  cluster_.Step(NodeDisconnected{NodeName("b")}, At(3));
  EXPECT_EQ(job().state, JobState::kRunning);
  cluster_.Step(LossDeclared{NodeName("b"), "ann", "burnt"}, At(4));
  EXPECT_EQ(state("b"), NodeState::kLost);
  EXPECT_EQ(node("b").history.back().who, "ann");
  EXPECT_EQ(job().state, JobState::kStopping);
  EXPECT_THAT(job().reason, HasSubstr("declared lost by ann: burnt"));
}

TEST_F(ClusterNodesTest, AutomationDrainsUntilTheBrakeAndAPersonReleasesIt) {
  Join({"a", "b", "c", "d"});
  const auto drain = [&](const char* name, double at) {
    return cluster_.Step(AutomaticDrainRequested{NodeName(name), "slow"}, At(at));
  };
  drain("d", 1);
  EXPECT_EQ(state("d"), NodeState::kDrained);
  EXPECT_EQ(node("d").holds[0].owner, "automation");
  const Actions actions = drain("c", 2);
  EXPECT_TRUE(actions.store_automation);
  EXPECT_EQ(state("c"), NodeState::kReady);
  EXPECT_TRUE(cluster_.automation().paused);
  EXPECT_EQ(cluster_.automation().owner, "brake");
  cluster_.Step(NodeResumeRequested{NodeName("d"), "ann"}, At(3));
  drain("c", 4);
  EXPECT_EQ(state("c"), NodeState::kReady) << "it stays paused";
  cluster_.Step(AutomationResumeRequested{"ann"}, At(5));
  drain("c", 6);
  EXPECT_EQ(state("c"), NodeState::kDrained);
}

TEST_F(ClusterNodesTest, AutomationEmptiesOneNodeOfAJobAtATime) {
  Join({"a", "b", "c", "d", "e", "f", "g", "h"});
  Train();
  cluster_.Step(AutomaticDrainRequested{NodeName("a"), "slow", DrainMode::kFinish}, At(3));
  EXPECT_STREQ(cluster_.RefuseAutomatic(NodeName("b"))->reason, "DRAIN_IN_FLIGHT");
  cluster_.Step(AutomaticDrainRequested{NodeName("b"), "slow", DrainMode::kFinish}, At(4));
  EXPECT_EQ(state("b"), NodeState::kReady);
  EXPECT_FALSE(cluster_.automation().paused);
  EXPECT_FALSE(cluster_.RefuseAutomatic(NodeName("c")).has_value());
}

TEST_F(ClusterNodesTest, PersonPausesTheAutomationAndTheFirstReasonStays) {
  EXPECT_TRUE(cluster_.Step(AutomationPauseRequested{"ann", "racks move"}, At(1)).store_automation);
  EXPECT_FALSE(cluster_.Step(AutomationPauseRequested{"bob", "me too"}, At(2)).store_automation);
  EXPECT_EQ(cluster_.automation().owner, "ann");
  EXPECT_EQ(cluster_.automation().since, At(1).wall);
}

TEST_F(ClusterNodesTest, WhatADrainEndsIsNoFailure) {
  Join({"a", "b", "c", "d"});
  Train("/ckpt", /*max_failures=*/1);
  Drain("b", DrainMode::kNow, 3);
  EXPECT_EQ(job().state, JobState::kRecovering);
  EXPECT_THAT(job().recovery.failures, IsEmpty());
}

TEST_F(ClusterNodesTest, JobWaitsForASlotOfWhatADrainHasEnded) {
  Join({"a", "b"});
  Train("/ckpt", /*max_failures=*/1);
  Drain("b", DrainMode::kNow, 3);
  for (int at = 4; at < 30; ++at) {
    TrainerReport survivor = ReportOf(0, TrainerState::kRunning);
    survivor.membership.waiting = true;
    survivor.membership.error = "the peer is gone";
    survivor.membership.left = Generation(1);
    cluster_.Step(NodeReported{NodeName("a"), {survivor}}, At(at));
    cluster_.Step(NodeReported{NodeName("b"), {ReportOf(1, TrainerState::kExited)}}, At(at));
  }
  EXPECT_EQ(job().state, JobState::kRecovering);
  EXPECT_THAT(job().recovery.failures, IsEmpty());
  EXPECT_THAT(job().reason, HasSubstr("drained (now) by ann: its fan is loud; waits for 1 slot"));
  cluster_.Step(NodeResumeRequested{NodeName("b"), "ann"}, At(31));
  EXPECT_EQ(job().generation, Generation(2));
}

TEST_F(ClusterNodesTest, HistoryOfADrainBeginsWithWhatRunsThere) {
  Join({"a", "b"});
  Train();
  cluster_.Step(HoldRequested{NodeName("b"), HoldBy("ann", DrainMode::kFinish, 3600.9)}, At(1));
  EXPECT_EQ(node("b").history.back().state, NodeState::kDraining);
  EXPECT_EQ(node("b").history.back().who, "ann");
  EXPECT_EQ(node("b").history.back().what, "drain (finish, deadline in 1h): its fan is loud");
}

TEST_F(ClusterNodesTest, EffectsAreToldForEachJobOnTheNode) {
  Join({"a", "b"});
  Train();
  EXPECT_THAT(cluster_.EffectsOfDrain(NodeName("b"), DrainMode::kCheckpoint, At(3)), SizeIs(1));
  EXPECT_THAT(cluster_.EffectsOfDrain(NodeName("x"), DrainMode::kCheckpoint, At(3)), IsEmpty());
}

TEST_F(ClusterNodesTest, NodeOfASpareThatStartsWhileTheJobTrainsIsShown) {
  Join({"a", "b"});
  JobRequest request = PlayedRequest();
  request.recovery.max_failures = 1;
  request.spares = 1;
  cluster_.Step(JobSubmitted{request}, At(1));
  TellAll(TrainerState::kRunning, 2);
  ASSERT_EQ(job().state, JobState::kRunning);
  ASSERT_THAT(job().spares, IsEmpty());
  Join({"c"}, 3);
  Actions actions;
  for (int second = 4; job().spares.empty() && second < 100; ++second) {
    actions = cluster_.Step(TimePassed{}, At(second));
  }
  ASSERT_THAT(job().spares, SizeIs(1));
  EXPECT_THAT(actions.show_nodes, Contains(NodeName("c")));
}

}  // namespace
}  // namespace paceline
