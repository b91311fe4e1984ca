#include "controller/core/recovery/copy_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "controller/core/testing/copying_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The rank's copy of this step has failed; its newest one is of `copied`.
void FailCopy(MemberJob& played, int rank, int64_t copied, int64_t step, double at) {
  TrainerReport report = played.Last(played.Id(rank));
  report.membership.copies = {played.job.generation, copied, step, "the connection broke", 0, step};
  played.Tell(report, at);
}

bool IsLate(const MemberJob& played) {
  return played.job.recovery.copies.trouble == CopyTrouble::kLate;
}

TEST(CopyTroubleTest, SaysOfCopiesThatFailWhomThatConcernsAndWhatALossWouldCost) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  EXPECT_EQ(DescribeCopyTrouble(played.job), "");
  FailCopy(played, 0, 10, 20, 3);
  TellCopies(played, 1, 20, 20, 4);
  EXPECT_EQ(DescribeCopyTrouble(played.job), "") << "rank 2 may not have come so far";
  EXPECT_EQ(TellCopies(played, 2, 20, 20, 5), JobChange::kState) << "it is looked at";
  EXPECT_EQ(
      DescribeCopyTrouble(played.job),
      "no copies in memory are complete since step 20: that of rank 0 on a, kept by rank 1 on b, "
      "was not made: the connection broke; a loss of a part of the state now takes all ranks "
      "back to the copies of step 10; look at the memory of a and b and the network between "
      "them; a connection that has broken is made anew for the next copy");
  CopyAll(played, 30, 6);
  EXPECT_EQ(DescribeCopyTrouble(played.job), "");
}

TEST(CopyTroubleTest, CopiesThatAreLeftOutHaveNotFailed) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  for (int rank = 0; rank < 3; ++rank) TellCopies(played, rank, 10, 40, 3);
  EXPECT_EQ(played.job.recovery.copies.settled_step, 40);
  EXPECT_EQ(DescribeCopyTrouble(played.job), "");
}

TEST(CopyTroubleTest, IfNoneAreCompleteALossCostsAStartFromTheCheckpoint) {
  MemberJob played = OneReplica();
  for (int rank = 0; rank < 3; ++rank) FailCopy(played, rank, 0, 1, 2);
  EXPECT_THAT(DescribeCopyTrouble(played.job),
              HasSubstr("from where it began: there is no checkpoint"));
  Checkpoint checkpoint;
  checkpoint.key = {8, 1};
  checkpoint.state = CheckpointState::kComplete;
  played.job.checkpoints.records.push_back(checkpoint);
  EXPECT_THAT(DescribeCopyTrouble(played.job), HasSubstr("from the checkpoint of step 8"));
  played.job.state = JobState::kRecovering;
  EXPECT_THAT(DescribeCopyTrouble(played.job), StartsWith("copies in host memory are not in time "))
      << "the next generation tries again";
}

TEST(CopyTroubleTest, AreLateUntilTheyAreMadeInTimeAgain) {
  MemberJob played = OneReplica();
  CopyAll(played, 10, 2);
  for (int64_t step = 11; step < 50; ++step) {
    TrainOn(played, step, 0, static_cast<double>(step));
    ASSERT_FALSE(IsLate(played)) << step;
    EXPECT_EQ(DescribeCopyTrouble(played.job), "");
  }
  TrainOn(played, 50, 0, 50);
  EXPECT_TRUE(IsLate(played));
  EXPECT_THAT(DescribeCopyTrouble(played.job),
              StartsWith("copies in host memory are late, and a loss may cost 40 steps; they have "
                         "the state after step 10"));
  TrainOn(played, 71, 0, 51);
  CopyAll(played, 60, 52);
  EXPECT_TRUE(IsLate(played)) << "they are older than one interval";
  TrainOn(played, 72, 0, 53);
  CopyAll(played, 70, 54);
  EXPECT_FALSE(IsLate(played));
}

TEST(CopyTroubleTest, ACheckpointThatARestartMayUseMakesUpForThem) {
  for (const int restarts : {0, 1}) {
    MemberJob played = OneReplica();
    played.job.request.max_restarts = restarts;
    CopyAll(played, 10, 2);
    Checkpoint checkpoint;
    checkpoint.key = {40, 1};
    checkpoint.state = CheckpointState::kComplete;
    played.job.checkpoints.records.push_back(checkpoint);
    TrainOn(played, 79, 0, 10);
    EXPECT_EQ(IsLate(played), restarts == 0);
    TrainOn(played, 80, 0, 11);
    EXPECT_TRUE(IsLate(played));
  }
}

TEST(CopyTroubleTest, BeforeTheFirstOnesTheStepsSinceTheStartCount) {
  MemberJob played = OneReplica();
  played.job.start.directory = "/checkpoints/job-0/step-000000000100.g1";
  TrainOn(played, 139, 0, 10);
  EXPECT_FALSE(IsLate(played));
  TrainOn(played, 140, 0, 11);
  EXPECT_TRUE(IsLate(played));
  EXPECT_THAT(DescribeCopyTrouble(played.job), HasSubstr("may cost 40 steps; nothing yet"));
}

// What follows from a cause is no other trouble: it has one beginning, one end, and another event
// only for another cause that is known.
TEST(CopyTroubleTest, OneTroubleIsToldOnceWithItsCause) {
  MemberJob played = OneReplica();
  const CopyTrouble& trouble = played.job.recovery.copies.trouble;
  CopyAll(played, 10, 2);
  FailCopy(played, 0, 10, 20, 3);
  for (const int rank : {1, 2}) TellCopies(played, rank, 20, 20, 4);
  EXPECT_EQ(trouble, CopyTrouble::kFailed);
  TrainOn(played, 90, 0, 5);
  EXPECT_EQ(trouble, CopyTrouble::kFailed) << "they are late for that";
  TellCopies(played, 0, 70, 60, 6);
  EXPECT_EQ(trouble, CopyTrouble::kFailed) << "those of the others are not there yet";
  EXPECT_THAT(DescribeCopyTrouble(played.job),
              StartsWith("copies in host memory are not in time again yet"));
  CopyAll(played, 70, 7);
  EXPECT_EQ(trouble, CopyTrouble::kNone) << "they took long, as they may always do";
  CopyAll(played, 80, 7.5);

  TrainOn(played, 120, 0, 8);
  EXPECT_EQ(trouble, CopyTrouble::kLate);
  for (int rank = 0; rank < 3; ++rank) FailCopy(played, rank, 80, 120, 9);
  EXPECT_EQ(trouble, CopyTrouble::kFailed) << "that is why";
  TrainerReport report = played.Last(played.Id(1));
  report.membership.can_keep_copies = false;
  played.Tell(report, 10);
  EXPECT_EQ(trouble, CopyTrouble::kLeftOut);
  EXPECT_THAT(DescribeCopyTrouble(played.job),
              StartsWith("trains without copies in host memory: the trainer of rank 1 on b"));
  EXPECT_THAT(DescribeCopyTrouble(played.job),
              HasSubstr("a loss of a part of the state now takes all ranks back to the copies of "
                        "step 80"));
}

// The copies of an earlier generation may be young, but they are not made any more.
TEST(CopyTroubleTest, AnotherGenerationEndsNoTroubleBeforeItHasCopies) {
  MemberJob played = TwoReplicas();
  const CopyTrouble& trouble = played.job.recovery.copies.trouble;
  for (int rank = 0; rank < 4; ++rank) FailCopy(played, rank, 10, 20, 3);
  ASSERT_EQ(trouble, CopyTrouble::kFailed);
  LoseRanks(played, {1}, 10);
  ASSERT_EQ(played.Nodes(), "axcd");
  TrainOn(played, 11, 0, 11);
  ASSERT_EQ(played.job.state, JobState::kRunning);
  EXPECT_EQ(trouble, CopyTrouble::kFailed);
  for (int rank = 0; rank < 4; ++rank) TellCopies(played, rank, 12, 12, 12);
  EXPECT_EQ(trouble, CopyTrouble::kNone);
}

// Each copy takes so many steps, and those that are due meanwhile are left out.
TEST(CopyTroubleTest, CopiesThatAlwaysTakeLongAreLateOnce) {
  constexpr int64_t kEvery = 4;
  for (int64_t takes = 1; takes <= 6 * kEvery; ++takes) {
    SCOPED_TRACE(takes);
    MemberJob played = OneReplica();
    played.job.request.recovery.copy_every_steps = kEvery;
    CopyAll(played, 10, 2);
    int changes = 0;
    bool late = false;
    const auto look = [&] {
      changes += std::exchange(late, IsLate(played)) == IsLate(played) ? 0 : 1;
    };
    int64_t begun = 0;
    for (int64_t step = 11; step <= 150; ++step) {
      const double at = static_cast<double>(step);
      TrainOn(played, step, 0, at);
      look();
      if (begun > 0 && step == begun + takes) CopyAll(played, std::exchange(begun, 0), at);
      look();
      if (begun == 0 && step % kEvery == 0) begun = step;
    }
    EXPECT_LE(changes, 1);
    EXPECT_EQ(late, takes >= 2 * kEvery);
  }
}

}  // namespace
}  // namespace paceline
