#include "controller/core/stragglers/job/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::IsEmpty;

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
  EXPECT_EQ(watched.stragglers->Find(watched.id)->reported().slow().count(2), 1U);
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
  const std::string slow_beside = beside.ranks[3].slot.node.value();
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

// Ranks of a script as measured from outside: one takes its time in its forward pass, and the
// others wait for it inside their backward passes.
WatchedJob::Row WaitingInBackward(int slow, double extra_s) {
  return [=](const std::vector<RankState>& ranks, int64_t step) {
    std::vector<StepTimes> row;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const double late = static_cast<int>(r) == slow ? extra_s : 0;
      StepTimes times;
      times.forward_s = Healthy(ranks[r].slot.node, step) / 3 + late;
      times.backward_s = 0.07 + extra_s - late;
      times.total_s = times.forward_s + times.backward_s + 0.001;
      row.push_back(times);
    }
    return row;
  };
}

TEST(StragglersTest, AScriptIsJudgedWithoutItsBackwardPassInWhichRanksWait) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.recovery = {};
  request.spares = 0;
  request.command.emplace();
  WatchedJob watched(request);
  ASSERT_EQ(watched.job().state, JobState::kRunning);
  watched.Train(50, [](const NodeName&, int64_t) { return 0.1; });
  watched.TrainAs(200, WaitingInBackward(5, 0.02));
  const auto& slow = watched.stragglers->Find(watched.id)->reported().slow();
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow.count(5), 1U);
}

// Decisions of an ended job, in order: what was done about stragglers on the node.
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
           {{swap, swap, RemedyKind::kDrain}, swap},  // Somebody has looked at it in between.
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

// Steps are judged by the job's present state, even if that changes between two of their reports.
TEST(StragglersTest, StepsOfAJobThatBeganToStopAreNotLookedAt) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(50, Healthy);
  const int64_t seen = watched.stragglers->Find(watched.id)->steps_seen();
  EXPECT_GT(seen, 0);
  const RankState rank = watched.job().ranks[0];
  const int64_t dropped = watched.stragglers->Find(watched.id)->dropped();
  watched.Apply(CancelRequested{watched.id, "by hand", absl::Seconds(5)});
  StepTimes times;
  times.step = watched.step;
  times.total_s = 0.1;
  watched.Tell(rank.slot.node, rank.report.id, {times});
  EXPECT_EQ(watched.stragglers->Find(watched.id)->dropped(), dropped + 1);
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

TEST(StragglersTest, AJobWithTheIdOfADeletedOneBeginsAnew) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  watched.Train(100, Healthy);
  ASSERT_GT(watched.stragglers->Find(watched.id)->steps_seen(), 0);
  Actions actions;
  actions.delete_jobs.insert(watched.id);
  watched.stragglers->Follow(*watched.cluster, actions, watched.now);
  EXPECT_EQ(watched.stragglers->Find(watched.id), nullptr);
  EXPECT_EQ(watched.stragglers->NextDeadline(), absl::InfiniteFuture());
  const RankState rank = watched.job().ranks[0];
  watched.Tell(rank.slot.node, rank.report.id, {StepTimes()});
  EXPECT_EQ(watched.stragglers->Find(watched.id), nullptr) << "until it is shown";
  actions = {};
  actions.show_jobs.insert(watched.id);
  watched.stragglers->Follow(*watched.cluster, actions, watched.now);
  ASSERT_NE(watched.stragglers->Find(watched.id), nullptr);
  EXPECT_EQ(watched.stragglers->Find(watched.id)->steps_seen(), 0);
  watched.Train(400, Healthy);
  EXPECT_GT(watched.stragglers->Find(watched.id)->steps_seen(), 0);
}

TEST(StragglersTest, WhatIsNotOfTheGenerationOrNotOfTheNodeIsDropped) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAuto));
  const TrainerId victim = watched.job().ranks[3].report.id;
  const NodeName home = watched.job().ranks[3].slot.node;
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
  tell(NodeName("n09"), victim, 1);  // From the wrong node.
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
  EXPECT_THAT(stragglers.reported().slow(), IsEmpty());
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
  watched.Tell(other.slot.node, other.report.id, {late});
  EXPECT_EQ(stragglers.dropped(), dropped + 1);
}

JobRequest LadderRequest(StragglerMode mode) {
  JobRequest request = WatchedRequest(mode);
  request.strategy.has_ladder = true;
  request.strategy_spec = "synchronous";
  return request;
}

TEST(StragglersTest, StepsThatAreNotTypicalAreNotPlannedBy) {
  WatchedJob watched(LadderRequest(StragglerMode::kAuto));
  watched.step = 6000;
  for (int i = 0; i < 3; ++i) watched.Report();
  const auto& plan = watched.stragglers->Find(watched.id)->plan();
  for (const bool masked : {true, false}) {
    watched.TrainAs(400, [&](const std::vector<RankState>& ranks, int64_t) {
      std::vector<StepTimes> row(ranks.size());
      for (StepTimes& times : row) {
        times.forward_s = 0.1;
        times.communication_s = 0.001;
        times.total_s = 0.101;
      }
      row[3].masked = masked;
      return row;
    });
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(plan->advice == LadderAdvice::kNotMeasured, masked) << plan->reason;
  }
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
  // Here all ranks still wait for one another, so that it cannot help and is taken back.
  watched.Train(3000, Stalling);
  EXPECT_EQ(watched.policy().Find(1)->state, DecisionState::kDidNotHelp)
      << watched.policy().Find(1)->outcome;
  EXPECT_TRUE(watched.job().plan.ladder.empty());
  EXPECT_EQ(watched.policy().Find(2)->undoes, 1);
  EXPECT_EQ(watched.policy().Find(2)->state, DecisionState::kDone);
}

// A job in a mode in which nobody waits for a slow rank.
JobRequest SlipstreamRequest() {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise);
  request.recovery.max_failures = 0;
  request.spares = 0;
  request.strategy.slipstream = SlipstreamChoice();
  return request;
}

TEST(StragglersTest, WithSlipstreamASlowRankLosesItsOwnWorkOnly) {
  double lost[2];
  for (const bool own_pace : {false, true}) {
    JobRequest request = SlipstreamRequest();
    if (!own_pace) request.strategy.slipstream->mode = SlipstreamMode::kSync;
    WatchedJob watched(request);
    watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
    const auto& slow = watched.stragglers->Find(watched.id)->reported().slow();
    ASSERT_EQ(slow.count(2), 1U);
    lost[own_pace ? 1 : 0] = slow.at(2).verdict.lost_share;
  }
  EXPECT_GT(lost[0], 0.2);
  EXPECT_DOUBLE_EQ(lost[1], lost[0] / 8);
}

TEST(StragglersTest, WithSlipstreamNoLadderIsPlanned) {
  WatchedJob watched(SlipstreamRequest());
  watched.step = 6000;
  for (int i = 0; i < 3; ++i) watched.Report();
  watched.Train(250, Stalling);
  EXPECT_FALSE(watched.stragglers->Find(watched.id)->plan().has_value());
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
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

}  // namespace
}  // namespace paceline
