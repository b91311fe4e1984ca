#include "controller/core/recovery/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/core/testing/copying_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CopiesTest, CopiesOfAStepAreCompleteWhenAllMembersHaveThem) {
  MemberJob played = OneReplica();
  const JobCopies& copies = played.job.recovery.copies;
  EXPECT_EQ(TellCopies(played, 0, 10, 10, 2), JobChange::kProgress);
  EXPECT_EQ(TellCopies(played, 1, 10, 10, 3), JobChange::kProgress);
  EXPECT_EQ(copies.step, 0);
  EXPECT_FALSE(IsProtected(played.job));
  EXPECT_THAT(DescribeProtection(played.job), StartsWith("nothing yet"));
  EXPECT_EQ(TellCopies(played, 2, 10, 10, 4), JobChange::kState);
  EXPECT_EQ(copies.step, 10);
  EXPECT_EQ(copies.settled_step, 10);
  EXPECT_EQ(copies.generation, Generation(1));
  EXPECT_EQ(copies.time, At(4).wall);
  EXPECT_EQ(DescribeProtection(played.job), "the state after step 10");
  EXPECT_TRUE(IsProtected(played.job));
  EXPECT_NE(TellCopies(played, 2, 10, 10, 5), JobChange::kState);
}

TEST(CopiesTest, NothingIsProtectedIfTheCopyOfOneSeatIsLost) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  played.job.ranks[0].own_copy = -1;
  EXPECT_TRUE(IsProtected(played.job)) << "its buddy has it";
  played.job.ranks[1].ward_copy = -1;
  EXPECT_FALSE(IsProtected(played.job));
  EXPECT_THAT(DescribeProtection(played.job),
              StartsWith("nothing until the next copies: nobody is left with the copy of seat 0"));
}

// Whatever is lost of the copies and of their holders.
TEST(CopiesTest, WhatIsProtectedIsWhatSomebodyIsLeftWith) {
  for (unsigned gone = 0; gone < 1U << 9; ++gone) {
    MemberJob played = OneReplica();
    CopyAll(played, 10, 2);
    std::set<int> held;
    for (size_t r = 0; r < 3; ++r) {
      RankState& member = played.job.ranks[r];
      if ((gone >> r & 1U) != 0) member.own_copy = -1;
      if ((gone >> (3 + r) & 1U) != 0) member.ward_copy = -1;
      if ((gone >> (6 + r) & 1U) != 0) {
        member.lost = "killed";
      } else {
        held.insert({member.own_copy, member.ward_copy});
      }
    }
    held.erase(-1);
    EXPECT_EQ(IsProtected(played.job), held.size() == 3) << gone;
    EXPECT_EQ(DescribeProtection(played.job).find("nobody is left") == std::string::npos,
              held.size() == 3)
        << gone;
  }
}

TEST(CopiesTest, ARankAloneIsNotProtected) {
  JobRequest request = MemberRequest(2);
  request.recovery.copy_every_steps = 10;
  request.recovery.min_ranks = 1;
  MemberJob played(request);
  for (int rank = 0; rank < 2; ++rank) TellCopies(played, rank, 10, 10, 2);
  ASSERT_TRUE(IsProtected(played.job));
  LoseRanks(played, {1}, 10);
  ASSERT_EQ(played.Nodes(), "a") << played.job.reason;
  played.TrainAll(11, 11);
  EXPECT_FALSE(IsProtected(played.job)) << "its own copy is lost with it";
  EXPECT_THAT(DescribeProtection(played.job), StartsWith("not protected: the job has one rank"));
  EXPECT_THAT(DescribeProtection(played.job), HasSubstr("has no checkpoint.directory"));
  played.job.request.checkpoints.directory = "/checkpoints";
  EXPECT_THAT(DescribeProtection(played.job), HasSubstr("paceline checkpoint save job-1"));
}

TEST(CopiesTest, ACopyThatOneHasGivenUpIsNeverComplete) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  TellCopies(played, 0, 20, 20, 3);
  TellCopies(played, 1, 10, 20, 4);
  TellCopies(played, 2, 20, 20, 5);
  EXPECT_EQ(played.job.recovery.copies.step, 10);
  EXPECT_EQ(played.job.recovery.copies.settled_step, 20);
}

TEST(CopiesTest, MembersAreToldTheirBuddiesAndWhatIsComplete) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  for (int rank = 0; rank < 3; ++rank) {
    const RankState& member = played.job.ranks[static_cast<size_t>(rank)];
    const std::optional<MemberCopies> copies = MembershipOf(played.job, member).copies;
    ASSERT_TRUE(copies.has_value());
    EXPECT_EQ(copies->seat, rank);
    EXPECT_EQ(copies->buddy, (rank + 1) % 3);
    EXPECT_EQ(copies->ward, (rank + 2) % 3);
    EXPECT_EQ(copies->complete_step, 10);
    EXPECT_EQ(copies->complete_generation, Generation(1));
    EXPECT_FALSE(copies->restore);
  }
}

TEST(CopiesTest, ALostPartOfTheModelTakesAllBackToTheNewestCopies) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  LoseRanks(played, {1}, 10);
  const Job& job = played.job;
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(played.Nodes(), "axc");
  EXPECT_THAT(job.reason, StartsWith("goes back to the copies of step 10; rank 1 on b"));
  for (const RankState& member : job.ranks) {
    EXPECT_TRUE(MembershipOf(job, member).copies->restore);
  }
  TrainOn(played, 10, 7, 12);
  EXPECT_EQ(job.state, JobState::kRunning);
  const MembershipChange& change = job.recovery.history.back();
  EXPECT_THAT(change.reason, StartsWith("rolled back 7 steps to the copies of step 10; rank 1"));
  EXPECT_EQ(change.restored_step, 10);
  EXPECT_EQ(change.steps_lost, 7);
  EXPECT_FALSE(MembershipOf(job, job.ranks[0]).copies->restore);
  // The newcomer has its copy, but not that of the ward of the one that was lost.
  EXPECT_THAT(DescribeProtection(job), HasSubstr("only once for rank 0"));
}

TEST(CopiesTest, AnEvaluationOfStepsThatAreMadeAgainIsForgotten) {
  for (const int64_t step : {10, 17}) {
    MemberJob played = OneReplica();
    CopyAll(played, 10, 2);
    played.job.evaluation.emplace().step = step;
    LoseRanks(played, {1}, 10);
    EXPECT_TRUE(played.job.evaluation.has_value()) << "nobody has gone back yet";
    TrainOn(played, 10, 7, 12);
    EXPECT_EQ(played.job.evaluation.has_value(), step == 10);
  }
}

TEST(CopiesTest, WithoutACopyOfEachPartTheJobStartsAgain) {
  MemberJob none = OneReplica();
  LoseRanks(none, {1}, 10);
  EXPECT_NE(none.job.state, JobState::kRecovering);
  EXPECT_THAT(none.job.reason, HasSubstr("no copies are complete yet"));

  // Rank 1 is the buddy of rank 0.
  MemberJob both = OneReplica();
  CopyAll(both, 10, 2);
  LoseRanks(both, {0, 1}, 10);
  EXPECT_NE(both.job.state, JobState::kRecovering);
  EXPECT_THAT(both.job.reason, HasSubstr("nobody is left with the copy of seat 0 after step 10"));
}

TEST(CopiesTest, ACheckpointThatIsMuchNewerIsWorthARestart) {
  for (const int64_t saved : {int64_t{39}, int64_t{40}}) {
    for (const int restarts : {0, 1}) {
      MemberJob played = OneReplica();
      played.job.request.max_restarts = restarts;
      CopyAll(played, 10, 2);
      Checkpoint checkpoint;
      checkpoint.key = {saved, 1};
      checkpoint.state = CheckpointState::kComplete;
      played.job.checkpoints.records.push_back(checkpoint);
      LoseRanks(played, {1}, 10);
      const bool goes_back = saved < 40 || restarts == 0;
      EXPECT_EQ(played.job.state == JobState::kRecovering, goes_back) << played.job.reason;
      if (!goes_back) {
        EXPECT_THAT(played.job.reason,
                    HasSubstr("copies of step 10 are older than its checkpoint"));
      }
    }
  }
}

TEST(CopiesTest, UntilAllHaveGoneBackEachGenerationGoesBackToTheSame) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  LoseRanks(played, {1}, 10);
  const Job& job = played.job;
  EXPECT_EQ(job.generation, Generation(2));
  // The newcomer fails before it has its state: rank 2 still has the copy of seat 1.
  LoseRanks(played, {1}, 11);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ayc");
  EXPECT_TRUE(job.recovery.copies.restoring);
  EXPECT_EQ(job.recovery.copies.step, 10);
  // With rank 2, that is lost.
  played.slots.Add("z");
  LoseRanks(played, {2}, 12);
  EXPECT_NE(job.state, JobState::kRecovering);
  EXPECT_THAT(job.reason, HasSubstr("nobody is left with the copy of seat 1"));
}

// A newcomer at position 1 is the first to tell of its state, of step 10, when rank 3 is lost: rank
// 7 has the same position's of a later step.
TEST(CopiesTest, WhatIsLostMeanwhileIsNotReplacedFromALaterState) {
  JobRequest request = ShardedRequest(2, 4);
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  for (const char* node : {"w", "x", "y"}) played.slots.Add(node);
  for (int rank = 0; rank < 8; ++rank) TellCopies(played, rank, 10, 10, 2);
  LoseRanks(played, {1, 5}, 10);
  const Job& job = played.job;
  ASSERT_TRUE(job.recovery.copies.restoring) << job.reason;
  TrainerReport report = played.Last(played.Id(1));
  report.state = TrainerState::kRunning;
  report.membership.generation = job.generation;
  played.Tell(report, 11);
  LoseRanks(played, {3}, 12);
  EXPECT_EQ(job.generation, Generation(3)) << job.reason;
  EXPECT_TRUE(job.recovery.copies.restoring);
}

// With rank 1 the copy of rank 0 with its buddy is lost; rank 0 itself has left for a trainer on x.
TEST(CopiesTest, WhoHandsItsStateOverComesBackWithItsCopies) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  RequestReplacement(played.job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(played.job.spares.at(0).report.id, 21);
  ASSERT_EQ(played.Nodes(), "xbc");
  LoseRanks(played, {1}, 22);
  EXPECT_EQ(played.job.state, JobState::kRecovering) << played.job.reason;
  EXPECT_EQ(played.Nodes(), "ayc");
  EXPECT_TRUE(played.job.recovery.copies.restoring);
}

TEST(CopiesTest, OneTrainerOfAnEarlierReleaseIsEnoughForNoCopies) {
  for (unsigned old = 0; old < 1U << 3; ++old) {
    MemberJob played = OneReplica();
    for (const int rank : RanksIn(old, 3)) {
      TrainerReport report = played.Last(played.Id(rank));
      report.membership.can_keep_copies = false;
      played.Tell(report, 2);
    }
    for (const RankState& member : played.job.ranks) {
      EXPECT_EQ(MembershipOf(played.job, member).copies.has_value(), old == 0) << old;
    }
    EXPECT_EQ(WhyNoCopies(played.job).empty(), old == 0) << old;
  }
}

TEST(CopiesTest, WhichRanksKeepCopiesFromBeingMadeIsSaid) {
  MemberJob played = OneReplica();
  TrainerReport report = played.Last(played.Id(1));
  report.membership.can_keep_copies = false;
  played.Tell(report, 2);
  EXPECT_THAT(DescribeProtection(played.job),
              StartsWith("nothing; no copies are made: the trainer of rank 1 on b is of an earlier "
                         "release, which knows no copies: upgrade paceline-worker there"));
}

// Its release is not known before it is ready; nobody connects before all are.
TEST(CopiesTest, ANewcomerOfAnEarlierReleaseEndsThemForItsGeneration) {
  MemberJob played = TwoReplicas();
  LoseRanks(played, {1}, 10);
  const Job& job = played.job;
  ASSERT_EQ(played.Nodes(), "axcd");
  EXPECT_EQ(StoreAddress(job), "");
  EXPECT_TRUE(MembershipOf(job, job.ranks[0]).copies.has_value());
  TrainerReport report = played.Last(played.Id(1));
  report.state = TrainerState::kReady;
  report.store_address = "x:2";
  played.Tell(report, 11);
  EXPECT_NE(StoreAddress(job), "");
  for (const RankState& member : job.ranks) {
    EXPECT_FALSE(MembershipOf(job, member).copies.has_value());
  }
  EXPECT_THAT(DescribeProtection(job), StartsWith("the state after step 10"));
  EXPECT_THAT(DescribeProtection(job), HasSubstr("; no copies are made: the trainer of rank 1"));
}

TEST(CopiesTest, ATrainerOfAnEarlierReleaseIsReplacedWhenAllGoBack) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  LoseRanks(played, {1}, 10);
  const Job& job = played.job;
  ASSERT_EQ(played.Nodes(), "axc");
  TrainerReport report = played.Last(played.Id(1));
  report.state = TrainerState::kReady;
  report.store_address = "x:2";
  played.Tell(report, 11);
  EXPECT_EQ(job.state, JobState::kRecovering) << job.reason;
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ayc");
  EXPECT_THAT(job.reason, StartsWith("goes back to the copies of step 10; rank 1 on x: its trainer "
                                     "is of an earlier release"));
  EXPECT_EQ(job.recovery.avoid.count(NodeName("x")), 1U);
  for (const RankState& member : job.ranks) {
    EXPECT_TRUE(MembershipOf(job, member).copies->restore);
  }
}

TEST(CopiesTest, ASpareOfAnEarlierReleaseDoesNotGoBack) {
  JobRequest request = ShardedRequest(1, 3, /*spares=*/1);
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  played.slots.Add("x");
  played.slots.Add("y");
  played.Advance(2);
  TrainerReport report = played.job.spares.at(0).report;
  report.state = TrainerState::kReady;
  report.store_address = "x:1";
  played.Tell(report, 3);
  CopyAll(played, 10, 4);
  LoseRanks(played, {1}, 10);
  EXPECT_EQ(played.job.state, JobState::kRecovering) << played.job.reason;
  EXPECT_EQ(played.Nodes(), "ayc");
  EXPECT_TRUE(played.job.recovery.copies.restoring);
  EXPECT_EQ(StoreAddress(played.job), "") << "no generation with the spare has begun to connect";
}

TEST(CopiesTest, AStateThatSomebodyHasIsNoReasonToGoBack) {
  MemberJob played = TwoReplicas();
  LoseRanks(played, {1}, 10);
  EXPECT_EQ(played.job.generation, Generation(2));
  EXPECT_FALSE(played.job.recovery.copies.restoring);
  EXPECT_EQ(played.job.recovery.history.back().restored_step, 0);
}

}  // namespace
}  // namespace paceline
