#include "controller/core/stragglers/job/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "controller/core/stragglers/job/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Healthy steps of 100 ms, and a bit of noise that depends on node and step only.
double Healthy(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(7919 * step + 31 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(3);
  return 0.1 * (1 + 0.01 * (static_cast<double>(random() % 2001) / 1000 - 1));
}

// The node is slower by the factor from the step on.
WatchedJob::OwnTime SlowFrom(const std::string& slow, int64_t from, double factor = 1.5) {
  return [=](const NodeName& node, int64_t step) {
    return Healthy(node, step) * (node.value() == slow && step >= from ? factor : 1);
  };
}

// Each rank stalls now and then.
double Stalling(const NodeName& node, int64_t step) {
  std::minstd_rand random(
      static_cast<uint32_t>(104729 * step + 17 * (node.value()[1] * 10 + node.value()[2])));
  random.discard(5);
  return Healthy(node, step) + (random() % 100 < 2 ? 1.0 : 0.0);
}

std::vector<const RemedyDecision*> Orders(const WatchedJob& watched) {
  std::vector<const RemedyDecision*> orders;
  for (const RemedyDecision& decision : watched.policy().decisions()) {
    if (decision.automatic) orders.push_back(&decision);
  }
  return orders;
}

TEST(StragglersTest, SlowRankIsSwappedWhileTheJobTrainsAndTheStepsAreShorterAfterwards) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  ASSERT_EQ(watched.job().state, JobState::kRunning);
  const std::string slow = watched.NodeOf(5);
  watched.Train(200, SlowFrom(slow, 200));
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
  watched.Train(200, SlowFrom(slow, 200));
  EXPECT_NE(watched.NodeOf(5), slow);
  EXPECT_EQ(watched.job().generation, Generation(2));
  watched.Train(300, SlowFrom(slow, 200));
  ASSERT_EQ(watched.policy().decisions().size(), 1U);
  const RemedyDecision& decision = watched.Last();
  EXPECT_EQ(decision.kind, RemedyKind::kHotSwap);
  EXPECT_EQ(decision.state, DecisionState::kHelped) << decision.outcome;
  EXPECT_TRUE(decision.automatic);
  EXPECT_EQ(decision.rank, 5);
  EXPECT_NEAR(decision.predicted_s, 0.101, 0.005);
  EXPECT_NEAR(decision.measured_s, 0.101, 0.005);
  EXPECT_EQ(watched.job().recovery.avoid.count(NodeName(slow)), 1U);
  EXPECT_EQ(watched.stored.at(1).state, DecisionState::kHelped);
}

TEST(StragglersTest, WithAdviseAPersonDecides) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  const std::string slow = watched.NodeOf(2);
  watched.Train(600, SlowFrom(slow, 200));
  EXPECT_EQ(watched.NodeOf(2), slow);
  ASSERT_EQ(watched.policy().decisions().size(), 1U);
  EXPECT_EQ(watched.Last().state, DecisionState::kAdvised);
  EXPECT_THAT(watched.events, IsEmpty());
  EXPECT_EQ(watched.stragglers->Find(watched.id)->told().slow().count(2), 1U);
  EXPECT_EQ(watched.stragglers->RefuseApply(*watched.cluster, watched.id, 9)->reason,
            std::string("ADVICE_NOT_FOUND"));
  ASSERT_FALSE(watched.stragglers->RefuseApply(*watched.cluster, watched.id, 1).has_value());
  watched.ApplyAdvice(1);
  watched.Train(300, SlowFrom(slow, 200));
  EXPECT_NE(watched.NodeOf(2), slow);
  EXPECT_EQ(watched.Last().state, DecisionState::kHelped);
  EXPECT_EQ(watched.Last().by, "ann");
}

TEST(StragglersTest, OrdersOfTwoJobsAtTheSameTimeAreBothCarriedOut) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise), 20);
  JobRequest other = WatchedRequest(StragglerMode::kAdvise);
  other.id = JobId("job-2");
  watched.Apply(JobSubmitted{other});
  for (int i = 0; i < 5; ++i) watched.Report();
  const Job& beside = watched.cluster->jobs().at(other.id);
  const std::string slow = watched.NodeOf(5);
  const std::string slow_beside = beside.ranks[3].place.node.value();
  watched.Train(600, [&](const NodeName& node, int64_t step) {
    return std::max(SlowFrom(slow, 200)(node, step), SlowFrom(slow_beside, 200)(node, step));
  });
  StragglerActions both =
      watched.stragglers->Apply(*watched.cluster, watched.id, 1, "ann", watched.now);
  both.Merge(watched.stragglers->Apply(*watched.cluster, other.id, 1, "ann", watched.now));
  watched.Carry(std::move(both));
  watched.Train(300, Healthy);
  EXPECT_NE(watched.NodeOf(5), slow);
  EXPECT_EQ(watched.Last().state, DecisionState::kHelped) << watched.Last().outcome;
  const RemedyDecision& last = watched.stragglers->Find(other.id)->policy().decisions().back();
  EXPECT_EQ(last.state, DecisionState::kHelped) << last.outcome;
}

// Decisions of a job that is over, in their order: what was done about stragglers on the node.
std::vector<RemedyDecision> Done(const std::vector<RemedyKind>& kinds, const std::string& node) {
  std::vector<RemedyDecision> decisions;
  for (const RemedyKind kind : kinds) {
    RemedyDecision decision;
    decision.id = static_cast<int64_t>(decisions.size()) + 1;
    decision.kind = kind;
    decision.state = DecisionState::kHelped;
    decision.node = NodeName(node);
    decision.made = absl::FromUnixSeconds(1600000000 + decision.id);
    decisions.push_back(decision);
  }
  return decisions;
}

TEST(StragglersTest, NodeOnWhichStragglersWereReplacedTwiceIsDrainedTheThirdTime) {
  using Kinds = std::vector<RemedyKind>;
  const RemedyKind swap = RemedyKind::kHotSwap;
  for (const auto& [before, then] : std::vector<std::pair<Kinds, RemedyKind>>{
           {{}, swap},
           {{swap}, swap},
           {{swap, swap}, RemedyKind::kDrain},
           {{swap, swap, RemedyKind::kDrain}, swap},  // Somebody has looked at it since.
       }) {
    WatchedJob watched(WatchedRequest(StragglerMode::kAuto), 20);
    const std::string slow = watched.NodeOf(5);
    JobRequest other = WatchedRequest(StragglerMode::kAuto);
    other.id = JobId("job-0");
    watched.Apply(JobSubmitted{other});
    watched.Carry(watched.stragglers->Restore({{other.id, Done(before, slow)}}, *watched.cluster,
                                              watched.now));
    watched.Train(400, SlowFrom(slow, 200));
    ASSERT_FALSE(watched.policy().decisions().empty());
    EXPECT_EQ(watched.Last().kind, then) << before.size() << " times before";
  }
}

TEST(StragglersTest, NothingIsLookedAtWhenItIsOff) {
  WatchedJob watched(WatchedRequest(StragglerMode::kOff));
  watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
  EXPECT_EQ(watched.stragglers->Find(watched.id)->steps_seen(), 0);
}

TEST(StragglersTest, PausedAutomationAdvisesOnly) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  watched.Apply(AutomationPauseRequested{"ann", "maintenance"});
  watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
  EXPECT_THAT(watched.events, IsEmpty());
  ASSERT_EQ(watched.policy().decisions().size(), 1U);
  EXPECT_EQ(watched.Last().state, DecisionState::kAdvised);
  watched.Apply(AutomationResumeRequested{"ann"});
  watched.Train(300, SlowFrom("n02", 200));
  EXPECT_EQ(watched.Last().state, DecisionState::kHelped);
}

TEST(StragglersTest, HalfOfTheRanksSlowAtOnceIsNoReasonToReplaceAnybody) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto), 16);
  watched.Train(900, [](const NodeName& node, int64_t step) {
    return Healthy(node, step) * (step >= 200 && node.value() < "n04" ? 1.6 : 1);
  });
  EXPECT_THAT(watched.events, IsEmpty());
  for (const RemedyDecision& decision : watched.policy().decisions()) {
    EXPECT_EQ(decision.kind, RemedyKind::kAskPerson) << decision.reason;
  }
  EXPECT_EQ(watched.job().generation, Generation(1));
}

TEST(StragglersTest, WhatIsNotOfTheGenerationOrNotOfTheNodeIsDropped) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  const TrainerId victim = watched.job().ranks[3].report.id;
  const NodeName home = watched.job().ranks[3].place.node;
  watched.Train(200, Healthy);
  const JobStragglers& stragglers = *watched.stragglers->Find(watched.id);
  const int64_t seen = stragglers.steps_seen();
  const auto tell = [&](const NodeName& node, const TrainerId& id, double seconds) {
    std::vector<StepTimes> steps;
    for (int i = 0; i < 300; ++i) {
      StepTimes times;
      times.step = watched.step + i;
      times.forward_s = times.backward_s = seconds;
      times.total_s = 2 * seconds;
      steps.push_back(times);
    }
    watched.Tell(node, id, steps);
  };
  tell(NodeName("n09"), victim, 1);  // Another node speaks for it.
  tell(home, {JobId("job-2"), Generation(1), Rank(3)}, 1);
  tell(home, {watched.id, Generation(7), Rank(3)}, 1);
  EXPECT_EQ(stragglers.steps_seen(), seen);
  EXPECT_EQ(stragglers.dropped(), 600);
  for (const double nonsense : {-1.0, 1e9, std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity()}) {
    tell(home, victim, nonsense);
  }
  EXPECT_EQ(stragglers.dropped(), 600 + 4 * 300);
  watched.step += 300;
  watched.Train(400, Healthy);
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
  EXPECT_THAT(stragglers.told().slow(), IsEmpty());
}

TEST(StragglersTest, StepsBeyondTheJobsEndKeepNobodyFromBeingWatched) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(20, Healthy);
  std::vector<StepTimes> beyond(300);
  for (size_t i = 0; i < beyond.size(); ++i) {
    beyond[i].step = (int64_t{1} << 40) + static_cast<int64_t>(i);
    beyond[i].total_s = beyond[i].forward_s = 0.1;
  }
  watched.Tell(NodeName(watched.NodeOf(0)), watched.job().ranks[0].report.id, beyond);
  watched.Train(100, Healthy);
  EXPECT_EQ(watched.stragglers->Find(watched.id)->steps_seen(), 120);
  EXPECT_EQ(watched.stragglers->Find(watched.id)->dropped(), 300);
}

TEST(StragglersTest, StepsFromBeforeTheReplacementArriveTooLate) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  const std::string slow = watched.NodeOf(5);
  watched.Train(400, SlowFrom(slow, 200));
  ASSERT_EQ(watched.job().generation, Generation(2));
  const int64_t began = watched.job().recovery.history.back().step;
  const JobStragglers& stragglers = *watched.stragglers->Find(watched.id);
  const int64_t dropped = stragglers.dropped();
  const RankState& other = watched.job().ranks[0];
  StepTimes late;
  late.step = began - 1;
  late.forward_s = late.total_s = 2;
  watched.Tell(other.place.node, other.report.id, {late});
  EXPECT_EQ(stragglers.dropped(), dropped + 1);
}

JobRequest LadderRequest(StragglerMode mode) {
  JobRequest request = WatchedRequest(mode);
  request.strategy.has_ladder = true;
  request.strategy_spec = "synchronous";
  return request;
}

TEST(StragglersTest, RandomStallsLeadToALadder) {
  WatchedJob watched(LadderRequest(StragglerMode::kAuto));
  watched.step = 6000;  // Beyond the first twentieth of its steps.
  for (int i = 0; i < 3; ++i) watched.Report();
  watched.Train(250, Stalling);
  ASSERT_EQ(Orders(watched).size(), 1U) << watched.stragglers->Find(watched.id)->plan()->reason;
  EXPECT_EQ(Orders(watched)[0]->kind, RemedyKind::kLadder);
  EXPECT_EQ(watched.job().plan.strategy, DescribeLadder(Orders(watched)[0]->ladder));
  EXPECT_FALSE(watched.job().plan.ladder.empty());
  // Here all ranks wait for one another still: it cannot have helped, and is taken back.
  watched.Train(3000, Stalling);
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kDidNotHelp)
      << watched.policy().Find(1)->outcome;
  EXPECT_TRUE(watched.job().plan.ladder.empty());
  EXPECT_EQ(watched.policy().Find(2)->undoes, 1);
  EXPECT_EQ(watched.policy().Find(2)->state, DecisionState::kDone);
}

TEST(StragglersTest, LadderThatCannotBePreparedHasFailed) {
  WatchedJob watched(LadderRequest(StragglerMode::kAuto));
  watched.step = 6000;
  for (int i = 0; i < 3; ++i) watched.Report();
  watched.plan_error = "no port is free";
  watched.Train(600, Stalling);
  ASSERT_FALSE(watched.policy().decisions().empty());
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_EQ(watched.policy().Find(1)->outcome, "no port is free");
  EXPECT_THAT(watched.job().plan.ladder, IsEmpty()) << "what the ranks still train by";
  EXPECT_EQ(watched.job().plan.strategy, DescribeLadder({}));
  EXPECT_EQ(Orders(watched).size(), 1U) << "not tried again at once";
}

TEST(StragglersTest, OrderSurvivesTheController) {
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

TEST(StragglersTest, DrainThatIsTakenBackHasFailed) {
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

TEST(StragglersTest, PersonWhoTakesAnAutomaticDrainBackTakesNoOtherHoldAway) {
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

TEST(StragglersTest, SlowNodeIsDrainedAndNotLeftForOneOfItsRanks) {
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

TEST(StragglersTest, RankThatIsGivenUpDoesNotComeBackOnTheSlowNode) {
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

TEST(StragglersTest, NothingIsLeftOfAnOrderThatCameToNothing) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.checkpoints.directory = "/checkpoints";
  WatchedJob watched(request);
  const std::string slow = watched.NodeOf(5);
  watched.Train(500, SlowFrom(slow, 200));
  ASSERT_EQ(watched.Last().state, DecisionState::kAdvised);
  ASSERT_EQ(watched.Last().kind, RemedyKind::kHotSwap);
  // A save that is under way holds the swap up for ever.
  watched.Apply(SaveRequested{watched.id, true});
  watched.ApplyAdvice(1);
  ASSERT_EQ(watched.job().recovery.vacate.count(NodeName(slow)), 1U);
  watched.Wait(absl::Minutes(16));
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.job().recovery.vacate, IsEmpty());
  EXPECT_THAT(watched.job().recovery.avoid, IsEmpty());
  EXPECT_EQ(watched.NodeOf(5), slow);
}

TEST(StragglersTest, SwapWhoseSpareDiesIsGivenUpWhenThereIsNoPlaceForAnother) {
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
  watched.Train(500, SlowFrom(slow, 200));  // 75 s.
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kFailed);
  EXPECT_THAT(watched.job().recovery.vacate, IsEmpty());
  EXPECT_EQ(watched.NodeOf(5), slow);
}

TEST(StragglersTest, NothingIsOpenWhenTheJobHasEnded) {
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

TEST(StragglersTest, DecisionsOfAJobThatHasEndedAreKnownUntilItIsDeleted) {
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

TEST(StragglersTest, OrderOfAJobThatIsOverIsClosedWhenTheControllerComesUp) {
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
