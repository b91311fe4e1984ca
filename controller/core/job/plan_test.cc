#include "controller/core/job/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace paceline {
namespace {

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

const NodeName kNode("a");

using Features = std::set<std::string>;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    JobRequest request{JobId("job-1"), "digits", 2, Device::kCpu, "spec", 1000, {true}, "first"};
    job_ = NewJob(std::move(request), 1, At(0));
  }

  void Place() { PlaceJob(job_, {{kNode, 0}, {kNode, 1}}, At(1)); }

  JobChange Report(int rank, int64_t active, int64_t since,
                   TrainerState state = TrainerState::kRunning) {
    TrainerReport report = job_.ranks[static_cast<size_t>(rank)].report;
    report.state = state;
    report.pid = 7 + rank;
    report.plan = {PlanVersion(active), PlanVersion(active), since, PlanVersion(), ""};
    if (state == TrainerState::kExited) report.exit = TrainerExit();
    return ApplyReport(job_, kNode, report, At(2));
  }

  std::string Reason() const {
    const std::optional<Refusal> refusal = RefuseLadder(job_);
    return refusal.has_value() ? refusal->reason : "";
  }

  Job job_;
};

TEST_F(PlanTest, QueuedJobStartsWithTheNewestLadder) {
  EXPECT_EQ(job_.plan.version, PlanVersion(1));
  EXPECT_EQ(job_.plan.strategy, "first");
  for (const char* strategy : {"second", "third"}) {
    EXPECT_EQ(Reason(), "");
    ChangePlan(job_, {{}, strategy});
  }
  Place();
  EXPECT_EQ(job_.plan.version, PlanVersion(3));
  EXPECT_EQ(job_.plan.strategy, "third");
}

TEST_F(PlanTest, NextChangeWaitsUntilEveryRankTrainsByTheLast) {
  Place();
  EXPECT_EQ(Reason(), "PLAN_PENDING");
  Report(0, 1, 0);
  Report(1, 0, 0);
  EXPECT_EQ(Reason(), "PLAN_PENDING");
  EXPECT_EQ(Report(1, 1, 0), JobChange::kTrainer);
  EXPECT_EQ(Reason(), "");
  ChangePlan(job_, {{}, "second"});
  EXPECT_EQ(
      RefuseLadder(job_)->message,
      "plan version 2 of job job-1 has not been taken up yet by 2 of 2 ranks: try again when it "
      "has");
  Report(0, 2, 40);
  EXPECT_EQ(FindActivePlan(job_).version, PlanVersion(1));
  Report(1, 2, 40);
  EXPECT_EQ(Reason(), "");
  EXPECT_EQ(FindActivePlan(job_).version, PlanVersion(2));
  EXPECT_EQ(FindActivePlan(job_).since_step, 40);
}

TEST_F(PlanTest, PlanVersionThatARankCouldNotPrepareIsReplaced) {
  Place();
  Report(0, 1, 0);
  Report(1, 1, 0);
  ChangePlan(job_, {{}, "second"});
  EXPECT_EQ(Reason(), "PLAN_PENDING");
  TrainerReport report = job_.ranks[1].report;
  report.plan.failed = PlanVersion(2);
  report.plan.error = "rendezvous: timed out";
  EXPECT_EQ(ApplyReport(job_, kNode, report, At(3)), JobChange::kTrainer);
  EXPECT_EQ(Reason(), "");
  ChangePlan(job_, {{}, "third"});
  EXPECT_EQ(Reason(), "PLAN_PENDING");  // The report is about the version before.
  Report(0, 3, 40);
  Report(1, 3, 40);
  EXPECT_EQ(Reason(), "");
}

TEST_F(PlanTest, NoPlanIsActiveBeforeTheRanksTrain) {
  EXPECT_EQ(FindActivePlan(job_).version, PlanVersion(0));
  Place();
  EXPECT_EQ(FindActivePlan(job_).version, PlanVersion(0));
}

TEST_F(PlanTest, WhatALaterLadderNeedsRestrictsThePlacementToo) {
  JobPlan plain;
  JobPlan outer;
  outer.needs.Add(1, "outer steps");
  ChangePlan(job_, plain);
  EXPECT_EQ(job_.request.placement.needs.version, 0);
  ChangePlan(job_, outer);
  EXPECT_EQ(job_.request.placement.needs.version, 1);
  EXPECT_EQ(job_.request.placement.needs.features, Features{"outer steps"});
  ChangePlan(job_, plain);
  EXPECT_EQ(job_.request.placement.needs.version, 1) << "the ladder before may come back";
}

TEST(SpecNeedsTest, FeaturesAreThoseOfTheHighestVersion) {
  SpecNeeds needs;
  needs.Add(SpecNeeds());
  EXPECT_EQ(needs.version, 0);
  needs.Add(1, "b");
  needs.Add(1, "a");
  EXPECT_EQ(needs.version, 1);
  EXPECT_EQ(needs.features, (Features{"a", "b"}));
  SpecNeeds later;
  later.Add(2, "c");
  later.Add(needs);
  EXPECT_EQ(later.version, 2);
  EXPECT_EQ(later.features, Features{"c"});
  needs.Add(later);
  EXPECT_EQ(needs.version, 2);
  EXPECT_EQ(needs.features, Features{"c"});
}

TEST_F(PlanTest, SynchronousJobHasNoLadder) {
  job_.request.strategy.has_ladder = false;
  EXPECT_EQ(Reason(), "STRATEGY_FIXED");
}

TEST_F(PlanTest, SlipstreamHasAModeInsteadOfALadder) {
  EXPECT_STREQ(RefuseMode(job_)->reason, "STRATEGY_FIXED");
  job_.request.strategy.has_ladder = false;
  job_.request.strategy.slipstream = job_.plan.slipstream = SlipstreamChoice();
  EXPECT_EQ(Reason(), "STRATEGY_FIXED");
  EXPECT_FALSE(RefuseMode(job_).has_value());
  Place();
  EXPECT_STREQ(RefuseMode(job_)->reason, "PLAN_PENDING");
  Report(0, 1, 0);
  Report(1, 1, 0);
  EXPECT_FALSE(RefuseMode(job_).has_value());
  ChangePlan(job_, {{}, "drop", {}, SlipstreamChoice{SlipstreamMode::kDrop, {}}});
  EXPECT_EQ(job_.plan.version, PlanVersion(2));
  EXPECT_TRUE(job_.plan.slipstream->own_pace());
  EXPECT_STREQ(RefuseMode(job_)->reason, "PLAN_PENDING");
  CancelJob(job_, "enough", absl::Seconds(1), At(3));
  EXPECT_STREQ(RefuseMode(job_)->reason, "JOB_ENDED");
}

TEST_F(PlanTest, AutoHasNeitherLadderNorMode) {
  job_.request.strategy.has_ladder = false;
  job_.request.strategy.is_auto = true;
  EXPECT_EQ(Reason(), "STRATEGY_FIXED");
  EXPECT_STREQ(RefuseMode(job_)->reason, "STRATEGY_FIXED");
}

TEST_F(PlanTest, SlipstreamIsTakenUpByAnotherGenerationOnly) {
  const JobPlan free{{}, "free", {}, SlipstreamChoice()};
  Place();
  Report(0, 1, 0);
  Report(1, 1, 0);
  EXPECT_FALSE(IsPlanPending(job_));
  ChangePlan(job_, free);
  EXPECT_EQ(job_.plan.strategy, "first");
  EXPECT_TRUE(IsPlanPending(job_));
  TakePlanOver(job_, /*planned=*/true);
  EXPECT_EQ(job_.plan.strategy, "free");
  EXPECT_EQ(job_.plan.version, PlanVersion(2));
  EXPECT_TRUE(IsPlanPending(job_));
  // The planned generation did not come about.
  TakePlanOver(job_, /*planned=*/false);
  EXPECT_EQ(job_.plan.strategy, "first");
  EXPECT_FALSE(job_.plan.slipstream.has_value());
  EXPECT_EQ(job_.plan.version, PlanVersion(3)) << "versions are never used twice";
}

TEST_F(PlanTest, ChangeToSlipstreamIsGivenUpWhenSomethingElseComesBefore) {
  Place();
  Report(0, 1, 0);
  Report(1, 1, 0);
  ChangePlan(job_, {{}, "free", {}, SlipstreamChoice()});
  TakePlanOver(job_, /*planned=*/false);
  EXPECT_EQ(job_.plan.strategy, "first");
  TakePlanOver(job_, /*planned=*/true);
  EXPECT_EQ(job_.plan.strategy, "first");
}

TEST_F(PlanTest, ChangeToSlipstreamCanBeTakenBack) {
  Place();
  Report(0, 1, 0);
  Report(1, 1, 0);
  ChangePlan(job_, {{}, "free", {}, SlipstreamChoice()});
  ChangePlan(job_, {{}, "first"});
  EXPECT_FALSE(IsPlanPending(job_));
  EXPECT_EQ(job_.plan.version, PlanVersion(1));
}

TEST_F(PlanTest, EndedAndEndingJobsAreLeftAlone) {
  Place();
  Report(0, 1, 0);
  Report(1, 1, 0);
  CancelJob(job_, "enough", absl::Seconds(1), At(3));
  EXPECT_EQ(Reason(), "JOB_ENDED");
  Report(0, 1, 0, TrainerState::kExited);
  Report(1, 1, 0, TrainerState::kExited);
  EXPECT_EQ(job_.state, JobState::kCancelled);
  EXPECT_EQ(Reason(), "JOB_ENDED");
}

TEST_F(PlanTest, RanksOfANodeAndNodesOfARackAreNeighbours) {
  const NodeName a("a"), b("b"), c("c");
  PlaceJob(job_, {{a, 0, "x"}, {b, 0, "y"}, {a, 1, "x"}, {c, 0, "x"}, {b, 1, "y"}}, At(1));
  std::string order;
  for (const RankState& rank : job_.ranks) {
    order += rank.slot.rack + rank.slot.node.value() + std::to_string(rank.slot.number) + " ";
  }
  EXPECT_EQ(order, "xa0 xa1 xc0 yb0 yb1 ");
  EXPECT_EQ(job_.ranks[4].report.id.rank, Rank(4));
}

}  // namespace
}  // namespace paceline
