#include "controller/core/node/drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const NodeName kB("b");

Job WithoutDirectory() {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  return RunningJob(request);
}

TEST(DrainTest, FinishMovesNothing) {
  const DrainEffect effect = ChooseEffect(RunningJob(), kB, DrainMode::kFinish);
  EXPECT_EQ(effect.way, DrainWay::kFinish);
  EXPECT_EQ(effect.text, "trains to its end here");
  EXPECT_THAT(effect.ranks, ElementsAre(1));
}

TEST(DrainTest, JobWithCheckpointsMovesBySavingOne) {
  EXPECT_EQ(ChooseEffect(RunningJob(), kB, DrainMode::kCheckpoint).way, DrainWay::kSaveAndRequeue);
  const DrainEffect swap = ChooseEffect(RunningJob(), kB, DrainMode::kSwap);
  EXPECT_EQ(swap.way, DrainWay::kSaveAndRequeue);
  EXPECT_THAT(swap.text, HasSubstr("recovery.max_failures"));
}

TEST(DrainTest, JobWithoutCheckpointsMovesOnlyNow) {
  const Job job = WithoutDirectory();
  const DrainEffect effect = ChooseEffect(job, kB, DrainMode::kCheckpoint);
  EXPECT_EQ(effect.way, DrainWay::kFinish);
  EXPECT_THAT(effect.text, HasSubstr("checkpoint.directory"));
  EXPECT_THAT(effect.text, HasSubstr("starts over"));
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kNow).way, DrainWay::kRequeue);
}

TEST(DrainTest, AProgramOfTheJobsOwnEndsHereOrStartsAgainElsewhere) {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  request.command = CommandPolicy();
  request.command->stop_grace = absl::Seconds(30);
  const Job job = RunningJob(request);
  for (const DrainMode mode : {DrainMode::kSwap, DrainMode::kCheckpoint}) {
    const DrainEffect effect = ChooseEffect(job, kB, mode);
    EXPECT_EQ(effect.way, DrainWay::kFinish);
    EXPECT_EQ(effect.text,
              "runs to its end here, as a program of its own cannot move while it runs; at the "
              "deadline, or with mode now, it is stopped (SIGTERM, and SIGKILL 30 s later) and "
              "starts again elsewhere when there is room");
  }
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kFinish).text, "runs to its end here");
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kNow).text,
            "stops at once and starts its program again elsewhere when there is room");
}

TEST(DrainTest, ASessionMovesAsAnyTraining) {
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  request.command = CommandPolicy();
  request.command->is_session = true;
  EXPECT_EQ(ChooseEffect(RunningJob(request), kB, DrainMode::kFinish).text,
            "trains to its end here");
  EXPECT_EQ(ChooseEffect(RunningJob(request), kB, DrainMode::kNow).text,
            "stops at once and starts over elsewhere when there is room");
  request.recovery.max_failures = 3;
  EXPECT_EQ(ChooseEffect(RunningJob(request), kB, DrainMode::kSwap).way, DrainWay::kSwap);
}

TEST(DrainTest, RanksOfAJobThatRecoversMoveOrEndAlone) {
  JobRequest request = PlayedRequest();
  request.recovery.max_failures = 3;
  const Job job = RunningJob(request);
  DrainEffect effect = ChooseEffect(job, kB, DrainMode::kSwap);
  EXPECT_EQ(effect.way, DrainWay::kSwap);
  EXPECT_EQ(effect.text, "rank 1 moves while the job trains on");
  effect = ChooseEffect(job, kB, DrainMode::kNow);
  EXPECT_EQ(effect.way, DrainWay::kEndRanks);
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kCheckpoint).way, DrainWay::kSaveAndRequeue);
}

TEST(DrainTest, SwapSaysWhereItsRanksGo) {
  DrainEffect effect;
  effect.ranks = {2};
  NameSubstitutes(effect, {NodeName("c")}, {});
  EXPECT_EQ(effect.text, "rank 2 moves to a spare on c while the job trains on");
  EXPECT_EQ(effect.missing, 0);
  effect.ranks = {2, 3, 4};
  NameSubstitutes(effect, {NodeName("c")}, {NodeName("d")});
  EXPECT_EQ(effect.text,
            "ranks 2, 3, 4 move to a spare on c and a new trainer on d while the job trains on; "
            "there is no free slot for 1 of 3 now: the drain waits for one");
  EXPECT_EQ(effect.missing, 1);
  effect.ranks = {2, 3};
  NameSubstitutes(effect, {}, {NodeName("d"), NodeName("d")});
  EXPECT_EQ(effect.text, "ranks 2, 3 move to new trainers on d while the job trains on");
}

TEST(DrainTest, TextOfOneThatWaitsSaysForWhatAndWhatToDo) {
  DrainEffect effect;
  effect.ranks = {1};
  NameSilence(effect, kB);
  EXPECT_EQ(effect.text,
            "rank 1 does not end yet: none of the job's nodes answers, and its ranks may train on "
            "with each other; this waits until one of the nodes answers again, or b, if it is off "
            "for certain, is declared lost: paceline node lost b --reason TEXT");
  effect.ranks = {1, 2};
  NameSilence(effect, kB);
  EXPECT_THAT(effect.text, HasSubstr("ranks 1, 2 do not end yet: "));
}

TEST(DrainTest, TextOfANowDrainNamesTheCheckpoint) {
  Job job = RunningJob();
  SaveAll(job, 40, At(3));
  const DrainEffect effect = ChooseEffect(job, kB, DrainMode::kNow);
  EXPECT_EQ(effect.way, DrainWay::kRequeue);
  EXPECT_THAT(effect.text, HasSubstr("goes on from /ckpt/job-1/step-000000000040.g1"));
}

TEST(DrainTest, JobThatHasNotBegunIsQueuedAgainUnlessItMayFinish) {
  Job job = NewJob(PlayedRequest(), 1, At(0));
  PlaceOnBoth(job, At(1));
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kSwap).way, DrainWay::kRequeue);
  EXPECT_EQ(ChooseEffect(job, kB, DrainMode::kFinish).way, DrainWay::kFinish);
}

}  // namespace
}  // namespace paceline
