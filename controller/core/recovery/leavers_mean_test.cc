#include "controller/core/recovery/leavers_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLost[] = "since the latest mean of all ranks, which are lost";

// Four ranks that average every 120 steps.
MemberJob LadderJob() {
  JobRequest request = MemberRequest(4);
  request.strategy.has_ladder = true;
  request.strategy.ladder = {{120, LadderScope::kAll, 0}};
  return MemberJob(request);
}

// The last `leaving` of its ranks leave as planned, and nobody takes their seats.
NextGeneration Without(const Job& job, int leaving) {
  NextGeneration next;
  next.planned = true;
  next.members.assign(job.ranks.begin(), job.ranks.end() - leaving);
  next.leaving.assign(job.ranks.end() - leaving, job.ranks.end());
  return next;
}

// A rank moves from c to e: the newcomer is ready, and the planned generation has begun.
MemberJob MovingJob() {
  MemberJob played = LadderJob();
  played.slots.Add("e");
  RequestReplacement(played.job, NodeName("c"), "drained by ann");
  played.Advance(20);
  played.Ready(played.job.spares.at(0).report.id, 21);
  EXPECT_EQ(played.Nodes(), "abed");
  return played;
}

void MakeOld(MemberJob& played, int rank) {
  TrainerReport report = played.Last(played.Id(rank));
  report.membership.can_average_first = false;
  played.Tell(report, 10);
}

TEST(LeaversMeanTest, RanksWithParametersOfTheirOwnAverageBeforeOneLeaves) {
  const MemberJob played = LadderJob();
  for (int leaving = 1; leaving < 4; ++leaving) {
    const LeaversMean mean = DecideLeaversMean(played.job, Without(played.job, leaving));
    EXPECT_TRUE(mean.averages_first);
    EXPECT_EQ(mean.lost, "");
  }
}

TEST(LeaversMeanTest, NothingIsAveragedWhereNothingWouldBeLost) {
  MemberJob played = LadderJob();
  EXPECT_FALSE(DecideLeaversMean(played.job, Without(played.job, 0)).averages_first) << "growth";
  NextGeneration next = Without(played.job, 1);
  next.planned = false;
  EXPECT_FALSE(DecideLeaversMean(played.job, next).averages_first) << "a loss";
  next = Without(played.job, 1);
  next.leaving.front().hands_over = true;
  EXPECT_FALSE(DecideLeaversMean(played.job, next).averages_first) << "another one gets its state";
  next = Without(played.job, 0);
  next.leaving.emplace_back().report.id = {JobId("job-1"), Generation(1), Rank(9)};
  EXPECT_FALSE(DecideLeaversMean(played.job, next).averages_first) << "it left before";
  played.job.request.strategy.has_ladder = false;
  EXPECT_FALSE(DecideLeaversMean(played.job, Without(played.job, 1)).averages_first)
      << "all ranks are equal";
}

TEST(LeaversMeanTest, WhatIsLostBesideATrainerOfAnEarlierReleaseIsSaid) {
  MemberJob played = LadderJob();
  MakeOld(played, 1);
  LeaversMean mean = DecideLeaversMean(played.job, Without(played.job, 1));
  EXPECT_FALSE(mean.averages_first);
  EXPECT_EQ(mean.lost, absl::StrCat("rank 3 leaves with up to 120 steps ", kLost,
                                    ": the trainer of rank 1 on b is of an earlier release"));
  mean = DecideLeaversMean(played.job, Without(played.job, 2));
  EXPECT_THAT(mean.lost, HasSubstr("2 ranks leave with up to 120 steps"));
}

TEST(LeaversMeanTest, AllThatLeaveAndStayAreToldUntilTheChangeIsDone) {
  MemberJob played = MovingJob();
  const Job& job = played.job;
  EXPECT_TRUE(job.recovery.history.back().averages_first);
  EXPECT_EQ(job.reason, "rank 2 moves from c to e (drained by ann)") << "nothing is lost";
  EXPECT_TRUE(MembershipOf(job, job.leaving.at(0)).averages_first);
  for (const RankState& member : job.ranks) EXPECT_TRUE(MembershipOf(job, member).averages_first);
  played.TrainAll(22, 30);
  ASSERT_EQ(ChangeUnderWay(job), nullptr);
  EXPECT_FALSE(MembershipOf(job, job.ranks[0]).averages_first);
}

TEST(LeaversMeanTest, TheReasonSaysWhatAMoveLoses) {
  MemberJob played = LadderJob();
  MakeOld(played, 0);
  played.slots.Add("e");
  RequestReplacement(played.job, NodeName("c"), "drained by ann");
  played.Advance(20);
  played.Ready(played.job.spares.at(0).report.id, 21);
  ASSERT_EQ(played.Nodes(), "abed");
  EXPECT_FALSE(played.job.recovery.history.back().averages_first);
  EXPECT_THAT(played.job.recovery.history.back().reason,
              HasSubstr("(drained by ann); rank 2 leaves with up to 120 steps since"));
}

TEST(LeaversMeanTest, TheMeanHasATimeoutOfItsOwn) {
  MemberJob played = MovingJob();
  played.Advance(22);
  played.Advance(22 + 31);
  EXPECT_EQ(played.job.generation, Generation(2)) << played.job.reason;
  played.Advance(22 + 61);
  EXPECT_EQ(played.job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_THAT(played.job.reason, HasSubstr("within 60 s"));
  EXPECT_THAT(played.job.reason, Not(HasSubstr(kLost))) << "who was to leave has come back";
}

// Else a mean that takes longer than a collective may would keep the ranks where they are, and use
// up the budget of failures.
TEST(LeaversMeanTest, AfterAMeanThatHasFailedTheRanksLeaveWithoutOne) {
  MemberJob played = MovingJob();
  const Job& job = played.job;
  played.Advance(22);
  played.Advance(22 + 61);
  ASSERT_EQ(played.Nodes(), "abcd") << "it was called off";
  played.TrainAll(84, 40);
  played.TrainAll(93, 45);
  played.Advance(95);
  ASSERT_EQ(played.Nodes(), "abed") << job.reason;
  EXPECT_FALSE(job.recovery.history.back().averages_first);
  EXPECT_THAT(job.recovery.history.back().reason,
              EndsWith(absl::StrCat("rank 2 leaves with up to 120 steps ", kLost,
                                    ": generation 2, before which they were to take one, did not "
                                    "come about")));
  played.TrainAll(96, 50);
  EXPECT_TRUE(DecideLeaversMean(job, Without(job, 1)).averages_first) << "one has come about since";
}

TEST(LeaversMeanTest, ALossBeforeTheMeanDoesNotSpeakAgainstTheNextOne) {
  MemberJob played = MovingJob();
  played.End(played.Id(1), 22);
  ASSERT_EQ(played.job.generation, Generation(3));
  EXPECT_TRUE(DecideLeaversMean(played.job, Without(played.job, 1)).averages_first);
}

// Ranks d and c are given back, and rank b is lost meanwhile.
TEST(LeaversMeanTest, WhatIsLostWhenTheChangeIsCalledOffIsSaid) {
  for (const bool has_left : {false, true}) {
    MemberJob played = LadderJob();
    Job& job = played.job;
    job.request.recovery.min_ranks = 1;
    job.request.recovery.rule = BatchRule::kKeepRank;
    BeginGeneration(job, Without(job, 2), At(20));
    ASSERT_EQ(job.leaving.size(), 2U);
    for (RankState& leaver : job.leaving) leaver.report.membership.waiting = has_left;
    played.End(played.Id(1), 21);
    ASSERT_EQ(played.Nodes(), "a") << job.reason;
    if (has_left) {
      EXPECT_THAT(job.reason, Not(HasSubstr(kLost)));
    } else {
      EXPECT_THAT(job.reason, EndsWith(absl::StrCat(
                                  "2 ranks that were to leave end with up to 120 steps ", kLost)));
    }
  }
}

}  // namespace
}  // namespace paceline
