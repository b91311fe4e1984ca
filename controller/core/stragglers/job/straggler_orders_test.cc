// What becomes of orders given for a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StragglerOrdersTest, OrderSurvivesTheController) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  const std::string slow = watched.NodeOf(5);
  watched.Train(200, SlowFrom(slow, 200));
  watched.stops_at_order = true;
  while (watched.events.empty() && watched.step < 600) watched.Train(10, SlowFrom(slow, 200));
  ASSERT_EQ(watched.Last().state, DecisionState::kOrdered);
  watched.plays = true;
  watched.Restart();
  watched.Train(400, SlowFrom(slow, 200));
  EXPECT_NE(watched.NodeOf(5), slow);
  EXPECT_EQ(watched.Last().id, 1);
  EXPECT_EQ(watched.Last().state, DecisionState::kHelped) << watched.Last().outcome;
}

TEST(StragglerOrdersTest, DrainThatIsTakenBackHasFailed) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.spares = 0;
  WatchedJob watched(request);
  const std::string slow = watched.NodeOf(5);
  watched.Train(200, SlowFrom(slow, 200));
  watched.stops_at_order = true;
  while (watched.events.empty() && watched.step < 2000) watched.Train(10, SlowFrom(slow, 200));
  ASSERT_EQ(watched.Last().state, DecisionState::kOrdered);
  EXPECT_EQ(watched.Last().kind, RemedyKind::kDrain);
  EXPECT_GE(watched.Last().lost_s, 30) << "as much as a cold start costs";
  watched.Apply(NodeResumeRequested{NodeName(slow), "ann"});
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.policy().Find(1)->outcome, HasSubstr("taken back"));
  EXPECT_EQ(watched.Last().kind, RemedyKind::kAskPerson) << "there is nothing else";
  EXPECT_EQ(watched.NodeOf(5), slow);
}

TEST(StragglerOrdersTest, PersonWhoTakesAnAutomaticDrainBackTakesNoOtherHoldAway) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.spares = 0;
  WatchedJob watched(request);
  const NodeName drained(watched.NodeOf(5));
  watched.Train(200, SlowFrom(drained.value(), 200));
  while (watched.job().generation == Generation(1) && watched.step < 2000) {
    watched.Train(10, SlowFrom(drained.value(), 200));
  }
  ASSERT_EQ(watched.Last().kind, RemedyKind::kDrain);
  for (int i = 0; i < 5 && IsInFlight(watched.Last()); ++i) watched.Report();
  watched.Apply(AutomationPauseRequested{"ann", "hands off"});
  Hold cordon;
  cordon.owner = "bob";
  watched.Apply(HoldRequested{drained, cordon});
  const WatchedJob::OwnTime other = SlowFrom(watched.NodeOf(2), watched.step + 20);
  for (int i = 0; i < 40 && IsChecked(*watched.policy().Find(1)); ++i) watched.Train(10, other);
  ASSERT_EQ(watched.policy().Find(1)->state, DecisionState::kDidNotHelp)
      << watched.policy().Find(1)->outcome;
  ASSERT_EQ(watched.policy().Find(2)->undoes, 1);
  watched.ApplyAdvice(2);
  EXPECT_EQ(watched.policy().Find(2)->state, DecisionState::kDone);
  const std::vector<Hold>& holds = watched.cluster->nodes().at(drained).holds;
  ASSERT_EQ(holds.size(), 1U);
  EXPECT_EQ(holds[0].owner, "bob");
}

TEST(StragglerOrdersTest, SlowNodeIsDrainedAndNotLeftForOneOfItsRanks) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.spares = 2;
  WatchedJob watched(request, /*nodes=*/6, {}, /*slots=*/2);
  const std::string slow = watched.NodeOf(2);
  ASSERT_EQ(watched.NodeOf(3), slow);
  watched.Train(400, SlowFrom(slow, 200));
  ASSERT_EQ(Orders(watched).size(), 1U);
  EXPECT_EQ(Orders(watched)[0]->kind, RemedyKind::kDrain) << Orders(watched)[0]->reason;
  EXPECT_EQ(Orders(watched)[0]->state, DecisionState::kChecking);
  EXPECT_NE(watched.NodeOf(2), slow);
  EXPECT_NE(watched.NodeOf(3), slow);
}

TEST(StragglerOrdersTest, RankThatIsGivenUpDoesNotComeBackOnTheSlowNode) {
  JobRequest request = WatchedRequest(StragglerMode::kAuto);
  request.spares = 0;
  request.recovery.min_ranks = 7;
  request.recovery.rule = BatchRule::kKeepRank;
  WatchedJob watched(request, /*nodes=*/8);
  const std::string slow = watched.NodeOf(5);
  watched.Train(800, SlowFrom(slow, 200));
  ASSERT_EQ(Orders(watched).size(), 1U);
  EXPECT_EQ(Orders(watched)[0]->kind, RemedyKind::kShrink);
  EXPECT_EQ(Orders(watched)[0]->state, DecisionState::kHelped) << Orders(watched)[0]->outcome;
  EXPECT_EQ(watched.job().ranks.size(), 7U);
  EXPECT_EQ(watched.job().generation, Generation(2));
  for (int rank = 0; rank < 7; ++rank) EXPECT_NE(watched.NodeOf(rank), slow);
}

TEST(StragglerOrdersTest, NothingIsLeftOfAnOrderThatCameToNothing) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.checkpoints.directory = "/checkpoints";
  WatchedJob watched(request);
  const std::string slow = watched.NodeOf(5);
  watched.Train(500, SlowFrom(slow, 200));
  ASSERT_EQ(watched.Last().state, DecisionState::kAdvised);
  ASSERT_EQ(watched.Last().kind, RemedyKind::kHotSwap);
  // A save under way delays the swap for ever.
  watched.Apply(SaveRequested{watched.id, true});
  watched.ApplyAdvice(1);
  ASSERT_EQ(watched.job().recovery.vacate.count(NodeName(slow)), 1U);
  watched.Wait(absl::Minutes(16));
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.job().recovery.vacate, IsEmpty());
  EXPECT_THAT(watched.job().recovery.avoid, IsEmpty());
  EXPECT_EQ(watched.NodeOf(5), slow);
}

TEST(StragglerOrdersTest, SwapWhoseSpareDiesIsGivenUpWhenThereIsNoSlotForAnother) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto), 9);
  const std::string slow = watched.NodeOf(5);
  watched.stops_at_order = true;
  while (watched.events.empty() && watched.step < 600) watched.Train(10, SlowFrom(slow, 200));
  ASSERT_EQ(watched.Last().kind, RemedyKind::kHotSwap);
  ASSERT_NE(watched.NodeOf(5), slow) << "the spare joins";
  watched.stops_at_order = false;
  const NodeName spare(watched.NodeOf(5));
  Hold cordon;
  cordon.owner = "bob";
  watched.Apply(HoldRequested{spare, cordon});
  TrainerReport dead;
  dead.id = watched.job().ranks[5].report.id;
  dead.state = TrainerState::kExited;
  dead.exit = TrainerExit();
  dead.exit->failure = FailureKind::kSignal;
  watched.Apply(NodeReported{spare, {dead}});
  watched.plays = true;
  for (int i = 0; i < 3; ++i) watched.Report();
  ASSERT_EQ(watched.job().state, JobState::kRunning) << watched.job().reason;
  ASSERT_EQ(watched.job().recovery.vacate.size(), 1U);
  watched.Train(500, SlowFrom(slow, 200));  // This takes 75 s.
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.job().recovery.vacate, IsEmpty());
  EXPECT_EQ(watched.NodeOf(5), slow);
}

TEST(StragglerOrdersTest, NothingIsOpenWhenTheJobHasEnded) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(600, SlowFrom(watched.NodeOf(5), 200));
  ASSERT_EQ(watched.Last().state, DecisionState::kAdvised);
  watched.Apply(CancelRequested{watched.id, "enough", absl::Seconds(1)});
  watched.Report();
  ASSERT_EQ(watched.job().state, JobState::kCancelled);
  EXPECT_EQ(watched.Last().state, DecisionState::kWithdrawn);
  EXPECT_EQ(watched.Last().outcome, "the job has ended");
  EXPECT_EQ(watched.stragglers->NextDeadline(), absl::InfiniteFuture());
}

TEST(StragglerOrdersTest, DecisionsOfAJobThatHasEndedAreKnownUntilItIsDeleted) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(600, SlowFrom(watched.NodeOf(5), 200));
  watched.Apply(CancelRequested{watched.id, "enough", absl::Seconds(1)});
  watched.Report();
  watched.Wait(absl::Hours(2));
  watched.Report();
  ASSERT_NE(watched.stragglers->Find(watched.id), nullptr);
  EXPECT_EQ(watched.Last().state, DecisionState::kWithdrawn);
  EXPECT_EQ(watched.stored.size(), 1U);
  watched.Restart();
  ASSERT_NE(watched.stragglers->Find(watched.id), nullptr);
  EXPECT_EQ(watched.Last().outcome, "the job has ended");
  Actions deleted;
  deleted.delete_jobs.insert(watched.id);
  const auto actions = watched.stragglers->Follow(*watched.cluster, deleted, watched.now);
  EXPECT_THAT(actions.forget, ElementsAre(StragglerActions::Key(watched.id, 1)));
  EXPECT_EQ(watched.stragglers->Find(watched.id), nullptr);
  EXPECT_EQ(watched.stragglers->NextDeadline(), absl::InfiniteFuture());
}

TEST(StragglerOrdersTest, OrderOfAJobThatIsOverIsClosedWhenTheControllerComesUp) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  const std::string slow = watched.NodeOf(5);
  watched.Train(200, SlowFrom(slow, 200));
  watched.stops_at_order = true;
  while (watched.events.empty() && watched.step < 600) watched.Train(10, SlowFrom(slow, 200));
  ASSERT_EQ(watched.stored.at(1).state, DecisionState::kOrdered);
  watched.Restart(JobState::kSucceeded);
  EXPECT_NE(watched.stored.at(1).state, DecisionState::kOrdered);
  EXPECT_EQ(watched.stored.at(1).outcome, "the job has ended");
  EXPECT_EQ(watched.stragglers->NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline
