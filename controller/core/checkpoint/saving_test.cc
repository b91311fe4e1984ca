#include "controller/core/checkpoint/saving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr SaveState kWriting = SaveState::kWriting;
constexpr SaveState kDurable = SaveState::kDurable;
constexpr SaveState kCommitted = SaveState::kCommitted;
constexpr SaveState kFailed = SaveState::kFailed;
constexpr SaveState kSkipped = SaveState::kSkipped;

TEST(SavingTest, ManifestMayBeWrittenWhenEveryShardIsDurableAndThenTheCheckpointExists) {
  Job job = RunningJob();
  EXPECT_EQ(TellSaves(job, 0, {Reported(20, kWriting)}, At(10)), JobChange::kProgress);
  EXPECT_THAT(StepsUnderWay(job), ElementsAre(20));
  TellSaves(job, 0, {Reported(20, kDurable)}, At(11));
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  TellSaves(job, 1, {Reported(20, kWriting)}, At(11));
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  EXPECT_EQ(TellSaves(job, 1, {Reported(20, kDurable)}, At(12)), JobChange::kState);
  EXPECT_THAT(CommitSteps(job), ElementsAre(20));
  EXPECT_EQ(NewestComplete(job), nullptr);

  TrainerReport report = PlayedReport(job, 0, TrainerState::kRunning);
  report.saves = {Reported(20, kCommitted)};
  report.blocked = absl::Milliseconds(30);
  EXPECT_EQ(Tell(job, report, At(13)), JobChange::kState);
  const Checkpoint* newest = NewestComplete(job);
  ASSERT_NE(newest, nullptr);
  EXPECT_EQ(newest->key, (CheckpointKey{20, 1}));
  EXPECT_EQ(newest->bytes, 200);
  EXPECT_EQ(newest->ranks, 2);
  EXPECT_EQ(newest->created, At(13).wall);
  EXPECT_EQ(DirectoryOf(job, *newest), "/ckpt/job-1/step-000000000020.g1");
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  EXPECT_THAT(StepsUnderWay(job), IsEmpty());
  EXPECT_EQ(job.checkpoints.committed, 1);
  EXPECT_EQ(job.checkpoints.durable, absl::Seconds(3));
  EXPECT_EQ(job.checkpoints.blocked, absl::Milliseconds(30));
}

TEST(SavingTest, RepeatsAndStepsBackChangeNothing) {
  Job job = RunningJob();
  SaveAll(job, 20, At(10));
  EXPECT_EQ(TellSaves(job, 0, {Reported(20, kCommitted)}, At(11)), JobChange::kNone);
  EXPECT_EQ(TellSaves(job, 0, {Reported(20, kDurable)}, At(11)), JobChange::kNone);
  EXPECT_EQ(TellSaves(job, 1, {Reported(20, kFailed)}, At(11)), JobChange::kProgress);
  EXPECT_EQ(job.checkpoints.committed, 1);
  EXPECT_THAT(job.checkpoints.records, SizeIs(1));
  EXPECT_THAT(job.checkpoints.failed, IsEmpty());
}

TEST(SavingTest, OnlyRank0Commits) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kWriting)}, At(10));
  TellSaves(job, 1, {Reported(20, kCommitted)}, At(10));
  EXPECT_EQ(NewestComplete(job), nullptr);
}

TEST(SavingTest, FencedGenerationCommitsNothing) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Job job = RunningJob(request);
  TrainerReport late = PlayedReport(job, 0, TrainerState::kRunning);
  late.saves = {Reported(20, kCommitted)};
  TellSaves(job, 0, {Reported(20, kDurable)}, At(10));
  TellSaves(job, 1, {Reported(20, kDurable)}, At(10));
  FailRank1(job, FailureKind::kSignal, At(11));
  EXPECT_THAT(CommitSteps(job), IsEmpty()) << "its generation has ended";
  EXPECT_EQ(Tell(job, late, At(12)), JobChange::kNone);
  job.checkpoints.settlement.reset();
  PlaceOnBoth(job, At(13));
  EXPECT_EQ(Tell(job, late, At(14)), JobChange::kNone);
  EXPECT_THAT(job.checkpoints.records, IsEmpty());
}

SaveStatus Held(int64_t step, const std::string& error) {
  SaveStatus status = Reported(step, kWriting);
  status.failure = SaveFailure::kNoSpace;
  status.error = error;
  return status;
}

TEST(SavingTest, RanksThatHoldTheirStateAreShownAndTheSaveGoesOn) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(1000, kDurable)}, At(10));
  EXPECT_EQ(TellSaves(job, 1, {Held(1000, "disk full; held")}, At(11)), JobChange::kState);
  EXPECT_TRUE(HoldsState(job.ranks[1]));
  EXPECT_FALSE(HoldsState(job.ranks[0]));
  EXPECT_EQ(SaveTrouble(job, At(12).wall),
            "Its checkpoints cannot be saved, and it has none: save after step 1000: rank 1 on b: "
            "disk full; held");
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNoSpace], 1);
  EXPECT_EQ(TellSaves(job, 1, {Held(1000, "disk full; held")}, At(13)), JobChange::kNone);
  EXPECT_THAT(StepsUnderWay(job), ElementsAre(1000));
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty()) << "it is still written to";

  TellSaves(job, 1, {Reported(1000, kDurable)}, At(14));
  EXPECT_FALSE(HoldsState(job.ranks[1]));
  EXPECT_THAT(CommitSteps(job), ElementsAre(1000));
  TellSaves(job, 0, {Reported(1000, kCommitted)}, At(15));
  EXPECT_EQ(SaveTrouble(job, At(16).wall), "");
  // The final weights are still held when the checkpoint is complete.
  EXPECT_EQ(TellSaves(job, 0, {Held(1000, "final.safetensors; held")}, At(17)), JobChange::kState);
  EXPECT_THAT(SaveTrouble(job, At(18).wall), HasSubstr("final.safetensors"));
  EXPECT_EQ(TellSaves(job, 0, {Reported(1000, kCommitted)}, At(19)), JobChange::kState);
  EXPECT_EQ(SaveTrouble(job, At(20).wall), "");
  EXPECT_EQ(job.checkpoints.committed, 1);
}

TEST(SavingTest, StateThatIsHeldIsSavedElsewhereByAllRanksAnew) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(1000, kDurable)}, At(10));
  TellSaves(job, 1, {Held(1000, "disk full; held")}, At(11));
  OrderSave(job, /*at_once=*/false, "asked for by a user", At(12), "/spare/");
  TellSaves(job, 1, {Reported(1000, kWriting, 1)}, At(13));
  TellSaves(job, 1, {Reported(1000, kDurable, 1)}, At(14));
  EXPECT_THAT(CommitSteps(job), IsEmpty()) << "rank 0's shard lies in the other directory";
  EXPECT_EQ(TellSaves(job, 0, {Reported(1000, kDurable)}, At(15)), JobChange::kNone) << "told late";
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  TellSaves(job, 0, {Reported(1000, kDurable, 1)}, At(16));
  EXPECT_THAT(CommitSteps(job), ElementsAre(1000));
  EXPECT_EQ(OrderOfSave(job, 1000), 1);
  EXPECT_EQ(TellSaves(job, 0, {Reported(1000, kCommitted)}, At(17)), JobChange::kNone);
  EXPECT_EQ(NewestComplete(job), nullptr);

  TellSaves(job, 0, {Reported(1000, kCommitted, 1)}, At(18));
  ASSERT_NE(NewestComplete(job), nullptr);
  EXPECT_EQ(DirectoryOf(job, *NewestComplete(job)), "/spare/job-1/step-000000001000.g1");
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kComplete);
  EXPECT_EQ(SaveTrouble(job, At(19).wall), "");
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty()) << "the job's own is scanned";
}

TEST(SavingTest, OrderToSaveElsewhereFailsWhenThatDoesNotWorkEitherAndTheNextOneMayWork) {
  Job job = RunningJob();
  TellSaves(job, 0, {Held(1000, "disk full; held")}, At(10));
  OrderSave(job, /*at_once=*/false, "asked for by a user", At(11), "/full");
  TellSaves(job, 1, {Reported(1000, kDurable, 1)}, At(12));
  SaveStatus held = Held(1000, "/full is full too; held");
  held.order = 1;
  TellSaves(job, 0, {held}, At(13));
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_THAT(job.checkpoints.order->error, HasSubstr("/full is full too"));
  OrderSave(job, /*at_once=*/false, "asked for by a user", At(14), "/spare");
  SaveAll(job, 1000, At(15), /*order=*/2);
  ASSERT_NE(NewestComplete(job), nullptr);
  EXPECT_EQ(NewestComplete(job)->base, "/spare");
  FailRank1(job, FailureKind::kSignal, At(16));
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{1000, 1}, "/full"}));
}

TEST(SavingTest, WhatAnOrderElsewhereHasLeftIsRemovedThere) {
  Job job = RunningJob();
  OrderSave(job, /*at_once=*/false, "asked for by a user", At(3), "/spare");
  TellSaves(job, 0, {Reported(20, kDurable, 1)}, At(4));
  FailRank1(job, FailureKind::kSignal, At(5));
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{20, 1}, "/spare"}));
}

TEST(SavingTest, FinalWeightsOfAJobWithoutCheckpointsAreShownWhileTheyAreHeld) {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory = "";
  Job job = RunningJob(request);
  EXPECT_EQ(TellSaves(job, 1, {Held(1000, "net.safetensors: disk full")}, At(10)),
            JobChange::kState);
  EXPECT_THAT(SaveTrouble(job, At(11).wall), HasSubstr("rank 1 on b: net.safetensors: disk full"));
  EXPECT_EQ(TellSaves(job, 1, {Held(1000, "net.safetensors: disk full")}, At(11)),
            JobChange::kNone);
  EXPECT_EQ(TellSaves(job, 1, {Reported(1000, kWriting)}, At(12)), JobChange::kState);
  EXPECT_EQ(SaveTrouble(job, At(13).wall), "");
  EXPECT_THAT(StepsUnderWay(job), IsEmpty());
}

TEST(SavingTest, OfSeveralThatHoldTheirStateTheFirstIsShown) {
  Job job = RunningJob();
  TellSaves(job, 1, {Held(1000, "second")}, At(10));
  TellSaves(job, 0, {Held(1000, "first")}, At(11));
  EXPECT_EQ(TellSaves(job, 1, {Held(1000, "second")}, At(12)), JobChange::kNone);
  EXPECT_EQ(job.checkpoints.last_error, "save after step 1000: rank 0 on a: first");
}

TEST(SavingTest, OneFailedPartFailsTheSaveOnceAndWhatWasWrittenIsRemovedWhenAllHaveTold) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kWriting)}, At(10));
  EXPECT_EQ(TellSaves(job, 1, {Reported(20, kFailed)}, At(11)), JobChange::kState);
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNoSpace], 1);
  EXPECT_EQ(job.checkpoints.last_error, "save after step 20: rank 1 on b: the disk is full");
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty()) << "rank 0 still writes";
  EXPECT_EQ(TellSaves(job, 0, {Reported(20, kFailed)}, At(12)), JobChange::kState);
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNoSpace], 1) << "one save, one failure";
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{20, 1}, ""}));
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  SaveAll(job, 40, At(20));
  EXPECT_EQ(job.checkpoints.last_error, "");
}

TEST(SavingTest, ManifestThatCannotBeWrittenFailsTheSave) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kDurable)}, At(10));
  TellSaves(job, 1, {Reported(20, kDurable)}, At(10));
  TellSaves(job, 0, {Reported(20, kFailed)}, At(11));
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{20, 1}, ""}));
}

TEST(SavingTest, SkippedSaveIsCountedAsSkippedAndLeavesNothingIfNobodyWrote) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kSkipped)}, At(10));
  TellSaves(job, 1, {Reported(20, kSkipped)}, At(10));
  EXPECT_EQ(job.checkpoints.skipped, 1);
  EXPECT_THAT(job.checkpoints.failed, IsEmpty());
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty());
  EXPECT_EQ(job.checkpoints.last_error, "") << "no error: it is counted";

  TellSaves(job, 0, {Reported(40, kSkipped)}, At(11));
  TellSaves(job, 1, {Reported(40, kDurable)}, At(11));
  EXPECT_EQ(job.checkpoints.skipped, 2);
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{40, 1}, ""}));
}

TEST(SavingTest, SavesThatNobodyTellsOfAnyMoreAreForgottenAndNotTakenForNew) {
  Job job = RunningJob();
  SaveAll(job, 20, At(10));
  for (int64_t step = 40; step <= 400; step += 20) SaveAll(job, step, At(10));
  EXPECT_THAT(job.checkpoints.saves, SizeIs(1));
  EXPECT_EQ(job.checkpoints.committed, 20);
  EXPECT_EQ(TellSaves(job, 1, {Reported(20, kWriting)}, At(11)), JobChange::kNone)
      << "an old report";
  EXPECT_THAT(StepsUnderWay(job), IsEmpty());
}

// Saves newer than that of step 1; so many that a rank no longer reports that one.
std::vector<SaveStatus> NewerSaves() {
  std::vector<SaveStatus> newer;
  for (int64_t step = 2; step <= 9; ++step) newer.push_back(Reported(step, kDurable));
  return newer;
}

TEST(SavingTest, PartThatARankTellsOfNoMoreIsLost) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(1, kDurable)}, At(10));
  ASSERT_EQ(NewerSaves().size(), kMaxSavesReported);
  TellSaves(job, 1, NewerSaves(), At(11));
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kInconsistent], 1);
  EXPECT_THAT(job.checkpoints.last_error, HasSubstr("save after step 1: rank 1 on b"));
}

// Rank 1 has done so many steps, and tells of no save.
JobChange Train(Job& job, int64_t steps, Moment now) {
  TrainerReport report = PlayedReport(job, 1, TrainerState::kRunning);
  report.membership.generation = job.generation;
  report.progress.step = steps;
  return Tell(job, report, now);
}

TEST(SavingTest, SaveThatARankTrainsPastHasFailed) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kDurable)}, At(10));
  Train(job, 20, At(11));
  Train(job, 20, At(100));
  Train(job, 25, At(101));
  Train(job, 30, At(160));
  EXPECT_THAT(StepsUnderWay(job), ElementsAre(20)) << "it may tell of it in a moment";
  EXPECT_EQ(Train(job, 31, At(161)), JobChange::kState);
  EXPECT_THAT(StepsUnderWay(job), IsEmpty());
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNotAgreed], 1);
  EXPECT_THAT(job.checkpoints.last_error,
              AllOf(HasSubstr("save after step 20: rank 1 on b: has done 11 more steps without it"),
                    HasSubstr("run.save()")));
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{20, 1}, ""}));
}

TEST(SavingTest, SaveByOrderThatARankTrainsPastIsNoMistakeOfTheScript) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kDurable, /*order=*/1)}, At(10));
  Train(job, 25, At(11));
  Train(job, 31, At(71));
  EXPECT_THAT(job.checkpoints.last_error,
              AllOf(HasSubstr("has done 11 more steps without it"), Not(HasSubstr("run.save"))));
}

TEST(SavingTest, SaveThatARankTellsOfLateGoesOn) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(20, kDurable)}, At(10));
  Train(job, 25, At(101));
  TellSaves(job, 1, {Reported(20, kDurable)}, At(160));
  Train(job, 31, At(170));
  EXPECT_THAT(CommitSteps(job), ElementsAre(20));
}

TEST(SavingTest, WithSlipstreamRanksMayBeBeyondASave) {
  Job job = RunningJob();
  job.plan.slipstream.emplace();
  TellSaves(job, 0, {Reported(20, kDurable)}, At(10));
  Train(job, 25, At(101));
  Train(job, 31, At(1000));
  EXPECT_THAT(StepsUnderWay(job), ElementsAre(20));
}

TEST(SavingTest, CheckpointThatMayHaveBeenCommittedUnheardIsNotRemoved) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(1, kDurable)}, At(10));
  TellSaves(job, 1, {Reported(1, kDurable)}, At(10));
  ASSERT_THAT(CommitSteps(job), ElementsAre(1));
  EXPECT_EQ(TellSaves(job, 0, NewerSaves(), At(100)), JobChange::kState);
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty());
  EXPECT_THAT(job.checkpoints.failed, IsEmpty());
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  EXPECT_THAT(StepsUnderWay(job), Not(Contains(1)));
  EXPECT_THAT(job.checkpoints.last_error,
              HasSubstr("save after step 1: rank 0 on a does not tell any more"));
  TellSaves(job, 1, NewerSaves(), At(101));
  EXPECT_THAT(CommitSteps(job), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty());
  EXPECT_EQ(job.checkpoints.forgotten_step, 1);
}

TEST(SavingTest, CommitThatIsToldLateCounts) {
  Job job = RunningJob();
  TellSaves(job, 0, {Reported(1, kDurable)}, At(10));
  TellSaves(job, 1, {Reported(1, kDurable)}, At(10));
  std::vector<SaveStatus> saves = NewerSaves();
  TellSaves(job, 0, saves, At(100));
  saves.erase(saves.begin());
  saves.push_back(Reported(1, kCommitted));
  TellSaves(job, 0, saves, At(101));
  ASSERT_NE(NewestComplete(job), nullptr);
  EXPECT_EQ(NewestComplete(job)->key, (CheckpointKey{1, 1}));
  EXPECT_EQ(job.checkpoints.committed, 1);
}

TEST(SavingTest, OrderWhoseOutcomeIsNotKnownHasEnded) {
  Job job = RunningJob();
  OrderSave(job, /*at_once=*/true, "asked for by a user", At(9));
  TellSaves(job, 0, {Reported(1, kDurable, 1)}, At(10));
  TellSaves(job, 1, {Reported(1, kDurable, 1)}, At(10));
  TellSaves(job, 0, NewerSaves(), At(100));
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kFailed);
  EXPECT_THAT(job.checkpoints.order->error, HasSubstr("whether it is complete"));
}

TEST(SavingTest, SavesThatNeverEndAreBounded) {
  Job job = RunningJob();
  for (int64_t step = 1; step <= 200; ++step) TellSaves(job, 0, {Reported(step, kWriting)}, At(10));
  EXPECT_THAT(job.checkpoints.saves, SizeIs(kMaxSaves));
}

TEST(SavingTest, RemnantsAreBounded) {
  Job job = RunningJob();
  for (int64_t step = 1; step <= 40; ++step) {
    TellSaves(job, 0, {Reported(step, kFailed)}, At(10));
    TellSaves(job, 1, {Reported(step, kFailed)}, At(10));
  }
  EXPECT_THAT(job.checkpoints.remnants, SizeIs(kMaxRemnants));
  EXPECT_EQ(job.checkpoints.failed[SaveFailure::kNoSpace], 40);
}

TEST(SavingTest, JobWithoutADirectoryTakesNoSaves) {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  Job job = RunningJob(request);
  SaveAll(job, 20, At(10));
  EXPECT_THAT(job.checkpoints.saves, IsEmpty());
  EXPECT_THAT(job.checkpoints.records, IsEmpty());
}

}  // namespace
}  // namespace paceline
