#include "controller/core/recovery/restart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

JobRequest RestartingRequest(int max_restarts = 2) {
  JobRequest request = PlayedRequest();
  request.max_restarts = max_restarts;
  return request;
}

// Slots the job again, as if its directory had been scanned.
void PlaceAgain(Job& job, Moment now) {
  job.checkpoints.settlement.reset();
  PlaceOnBoth(job, now);
}

std::string Reason(const std::optional<Refusal>& refusal) {
  return refusal.has_value() ? refusal->reason : "";
}

constexpr char kStep20[] = "/ckpt/job-1/step-000000000020.g1";
constexpr char kStep40[] = "/ckpt/job-1/step-000000000040.g1";

TEST(RestartTest, FailedJobStartsAgainFromItsNewestCheckpointAsTheNextGeneration) {
  Job job = RunningJob(RestartingRequest());
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  Exit(job, 1, FailureKind::kSignal, "killed by signal 9", At(7));
  EXPECT_EQ(job.state, JobState::kStopping) << "its trainers must be gone first";
  Exit(job, 0, FailureKind::kCollective, "connection closed", At(7.2));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.reason, "restart 1 of 2: rank 1 on b: killed by signal 9");
  EXPECT_EQ(job.restarts, 1);
  EXPECT_FALSE(job.failure.has_value());
  EXPECT_THAT(job.ranks, IsEmpty());
  EXPECT_FALSE(job.holds_slots());
  ASSERT_TRUE(job.checkpoints.settlement.has_value());
  EXPECT_EQ(job.checkpoints.settlement->up_to, Generation(1));

  PlaceAgain(job, At(8));
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(job.restored_from, kStep40);
  EXPECT_THAT(job.reason, HasSubstr("restart 1 of 2: rank 1 on b: killed by signal 9"));
  RunPlaced(job, At(9));
  EXPECT_EQ(job.reason, "all ranks train");
}

TEST(RestartTest, TheStepOfTheStartIsThatOfItsCheckpoint) {
  Job job = RunningJob(RestartingRequest());
  EXPECT_EQ(StepOfStart(job), 0);
  job.start.directory = "/ckpt/job-0/step-000000000100.g3";
  EXPECT_EQ(StepOfStart(job), 100) << "another job's";
  SaveAll(job, 120, At(5));
  EXPECT_EQ(StepOfStart(job), 120);
  job.start = {"/models/best", Generation(2)};
  EXPECT_FALSE(StepOfStart(job).has_value()) << "a line that begins at a step that nobody knows";
}

TEST(RestartTest, RestartsEnd) {
  Job job = RunningJob(RestartingRequest(1));
  FailRank1(job, FailureKind::kSignal, At(5));
  PlaceAgain(job, At(6));
  FailRank1(job, FailureKind::kError, At(7));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.restarts, 1);
  EXPECT_EQ(job.failure->rank, Rank(1));
  EXPECT_EQ(job.checkpoints.failures, 2);
}

TEST(RestartTest, JobWithoutADirectoryStartsFromTheBeginning) {
  JobRequest request = RestartingRequest();
  request.checkpoints.directory.clear();
  Job job = RunningJob(request);
  FailRank1(job, FailureKind::kSignal, At(5));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_FALSE(job.checkpoints.settlement.has_value());
  PlaceOnBoth(job, At(6));
  EXPECT_EQ(job.restored_from, "");
}

TEST(RestartTest, BadInputIsNotTriedAgain) {
  Job job = RunningJob(RestartingRequest());
  FailRank1(job, FailureKind::kInput, At(5));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.checkpoints.failures, 0) << "no fault of the machines";
}

TEST(RestartTest, CancelledJobIsNotRestarted) {
  Job job = RunningJob(RestartingRequest());
  Exit(job, 1, FailureKind::kSignal, "killed by signal 9", At(5));
  EXPECT_EQ(CancelJob(job, "enough", absl::Seconds(1), At(5)), JobChange::kState);
  Exit(job, 0, FailureKind::kNone, "", At(5.1));
  EXPECT_EQ(job.state, JobState::kFailed);

  Job queued = RunningJob(RestartingRequest());
  FailRank1(queued, FailureKind::kSignal, At(5));
  CancelJob(queued, "enough", absl::Seconds(1), At(6));
  EXPECT_EQ(queued.state, JobState::kCancelled);
  EXPECT_TRUE(queued.checkpoints.settlement.has_value()) << "its files are still scanned";
}

TEST(RestartTest, NodeThatDoesNotAnswerRestartsTheJobElsewhere) {
  Job job = RunningJob(RestartingRequest());
  Exit(job, 0, FailureKind::kCollective, "connection reset", At(5));
  TickJob(job, {NextDeadline(job), At(7).wall});
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_THAT(job.reason, HasSubstr("restart 1 of 2: rank 1 on b: node b does not answer"));
}

TEST(RestartTest, DamagedCheckpointEndsTheJobUnlessThePreviousIsAllowed) {
  Job job = RunningJob(RestartingRequest());
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  FailRank1(job, FailureKind::kSignal, At(7));
  PlaceAgain(job, At(8));
  Exit(job, 1, FailureKind::kRestore, "shard is damaged", At(9));
  Exit(job, 0, FailureKind::kNone, "", At(9));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(FindCheckpoint(job, {40, 1})->state, CheckpointState::kDamaged);
  EXPECT_THAT(job.reason, HasSubstr(kStep40));
  EXPECT_THAT(job.reason, HasSubstr("paceline job resume job-1 --from job-1/20.g1"));
  EXPECT_THAT(job.reason, HasSubstr("checkpoint.on_damage: previous"));
  EXPECT_EQ(job.restarts, 1);
}

TEST(RestartTest, CheckpointThatCouldNotBeReadIsTriedAgain) {
  JobRequest request = RestartingRequest(2);
  request.checkpoints.previous_on_damage = true;
  Job job = RunningJob(request);
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  FailRank1(job, FailureKind::kSignal, At(7));
  PlaceAgain(job, At(8));
  FailRank1(job, FailureKind::kError, At(9));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.restarts, 2) << "it counts as a failure";
  EXPECT_THAT(job.reason, HasSubstr("restart 2 of 2"));
  EXPECT_THAT(job.reason, HasSubstr(absl::StrCat("on its start from ", kStep40)));
  EXPECT_EQ(FindCheckpoint(job, {40, 1})->state, CheckpointState::kComplete);
  PlaceAgain(job, At(10));
  EXPECT_EQ(job.restored_from, kStep40);
  RunPlaced(job, At(11));
  FailRank1(job, FailureKind::kError, At(12));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.reason, Not(HasSubstr("on its start"))) << "it trained";
}

TEST(RestartTest, OlderCheckpointTakesTheDamagedOnesPlaceWithoutCountingAsARestart) {
  JobRequest request = RestartingRequest();
  request.checkpoints.previous_on_damage = true;
  Job job = RunningJob(request);
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  FailRank1(job, FailureKind::kSignal, At(7));
  PlaceAgain(job, At(8));
  FailRank1(job, FailureKind::kRestore, At(9));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.restarts, 1);
  PlaceAgain(job, At(10));
  EXPECT_EQ(job.restored_from, kStep20);
  FailRank1(job, FailureKind::kRestore, At(11));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.reason, HasSubstr("there is no older one"));
}

TEST(RestartTest, DamagedCheckpointThatCouldBeUsedAfterAllIsComplete) {
  Job job = RunningJob(RestartingRequest());
  SaveAll(job, 20, At(5));
  FailRank1(job, FailureKind::kSignal, At(7));
  PlaceAgain(job, At(8));
  FailRank1(job, FailureKind::kRestore, At(9));
  ASSERT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(Reason(RefuseResume(job, false)), "NO_CHECKPOINT");
  ResumeJob(job, job.request, kStep20);
  PlaceAgain(job, At(10));
  RunPlaced(job, At(11));
  EXPECT_EQ(FindCheckpoint(job, {20, 1})->state, CheckpointState::kComplete);
}

TEST(RestartTest, AJobRemembersWhoseCheckpointItWasMadeFrom) {
  Job job = RunningJob(RestartingRequest());
  EXPECT_EQ(job.origin, "");
  SaveAll(job, 20, At(5));
  FailRank1(job, FailureKind::kSignal, At(7));
  ResumeJob(job, job.request, kStep20);
  EXPECT_EQ(job.origin, "") << "it goes on from its own";
  ResumeJob(job, job.request, "/ckpt/job-7/step-000000000007.g1");
  EXPECT_EQ(job.origin, "/ckpt/job-7/step-000000000007.g1");
  ResumeJob(job, job.request, kStep20);
  ResumeJob(job, job.request, "");
  EXPECT_EQ(job.origin, "/ckpt/job-7/step-000000000007.g1");
  ResumeJob(job, job.request, "/by/hand");
  EXPECT_EQ(job.origin, "/by/hand");
  JobRequest request = RestartingRequest();
  request.resume_from = "/ckpt/job-8/step-000000000001.g1";
  EXPECT_EQ(NewJob(request, 1, At(0)).origin, request.resume_from);
}

TEST(RestartTest, ADirectorysNameTellsWhoSavedIt) {
  const auto saved = ParseDirectory("/ckpt/a/job-7/step-000000000120.g2");
  ASSERT_TRUE(saved.has_value());
  EXPECT_EQ(saved->job, JobId("job-7"));
  EXPECT_EQ(saved->key, (CheckpointKey{120, 2}));
  for (const char* other :
       {"", "/", "step-000000000120.g2", "/step-000000000120.g2", "/ckpt/step-000000000120.g2",
        "/ckpt/job-7/step-120.g2", "/ckpt/job-7", "/ckpt/job-7/step-000000000120.g2/"}) {
    EXPECT_FALSE(ParseDirectory(other).has_value()) << other;
  }
}

TEST(RestartTest, AnothersCheckpointIsNotMarked) {
  JobRequest request = RestartingRequest();
  request.resume_from = "/other/step-000000000007.g1";
  Job job = NewJob(request, 1, At(0));
  PlaceOnBoth(job, At(1));
  EXPECT_EQ(job.restored_from, request.resume_from);
  FailRank1(job, FailureKind::kRestore, At(2));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.reason, HasSubstr("/other/step-000000000007.g1 cannot be used"));
}

TEST(RestartTest, StartPointIsUsedUntilTheJobHasACheckpointSince) {
  JobRequest request = RestartingRequest(5);
  request.resume_from = "/other/step-000000000007.g1";
  Job job = RunningJob(request);
  FailRank1(job, FailureKind::kSignal, At(5));
  PlaceAgain(job, At(6));
  EXPECT_EQ(job.restored_from, request.resume_from);
  RunPlaced(job, At(7));
  SaveAll(job, 20, At(8));
  FailRank1(job, FailureKind::kSignal, At(9));
  PlaceAgain(job, At(10));
  EXPECT_EQ(job.restored_from, "/ckpt/job-1/step-000000000020.g2");
}

TEST(RestartTest, ResumptionFromAnOlderOneIsNotUndoneByARestart) {
  Job job = RunningJob(RestartingRequest());
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  CancelJob(job, "", absl::ZeroDuration(), At(7));
  Exit(job, 0, FailureKind::kNone, "", At(7));
  Exit(job, 1, FailureKind::kNone, "", At(7));
  ASSERT_EQ(job.state, JobState::kCancelled);
  ResumeJob(job, job.request, kStep20);
  PlaceAgain(job, At(8));
  EXPECT_EQ(job.restored_from, kStep20);
  RunPlaced(job, At(9));
  FailRank1(job, FailureKind::kSignal, At(10));
  PlaceAgain(job, At(11));
  EXPECT_EQ(job.restored_from, kStep20) << "not step 40, which the user has left";
  RunPlaced(job, At(12));
  SaveAll(job, 30, At(13));
  FailRank1(job, FailureKind::kSignal, At(14));
  PlaceAgain(job, At(15));
  EXPECT_EQ(job.restored_from, "/ckpt/job-1/step-000000000030.g3");
}

TEST(RestartTest, AnEvaluationOfStepsThatAreMadeAgainIsForgotten) {
  for (const int64_t step : {20, 30}) {
    Job job = RunningJob(RestartingRequest());
    SaveAll(job, 20, At(5));
    job.evaluation.emplace().step = step;
    FailRank1(job, FailureKind::kSignal, At(7));
    PlaceAgain(job, At(8));
    EXPECT_EQ(job.restored_from, kStep20);
    EXPECT_EQ(job.evaluation.has_value(), step == 20);
  }
}

TEST(RestartTest, ResumptionGoesOnWithTheLineThatWasChosenLast) {
  Job job = RunningJob(RestartingRequest(0));
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  FailRank1(job, FailureKind::kSignal, At(7));
  ASSERT_EQ(job.state, JobState::kFailed);
  job.evaluation.emplace();
  ResumeJob(job, job.request, kStep20);
  EXPECT_FALSE(job.evaluation.has_value()) << "of the line that is left";
  PlaceAgain(job, At(8));
  RunPlaced(job, At(9));
  FailRank1(job, FailureKind::kSignal, At(10));
  ASSERT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(Reason(RefuseResume(job, false)), "");
  ResumeJob(job, job.request, "");
  EXPECT_EQ(ChooseStart(job), kStep20) << "not step 40, which the user has left";
  PlaceAgain(job, At(11));
  RunPlaced(job, At(12));
  SaveAll(job, 30, At(13));
  FailRank1(job, FailureKind::kSignal, At(14));
  ResumeJob(job, job.request, "");
  EXPECT_EQ(ChooseStart(job), "/ckpt/job-1/step-000000000030.g3");
}

TEST(RestartTest, LineWhoseCheckpointCannotBeUsedIsNotExchangedForAnother) {
  Job job = RunningJob(RestartingRequest(0));
  SaveAll(job, 20, At(5));
  SaveAll(job, 40, At(6));
  FailRank1(job, FailureKind::kSignal, At(7));
  ResumeJob(job, job.request, kStep20);
  PlaceAgain(job, At(8));
  FailRank1(job, FailureKind::kRestore, At(9));
  ASSERT_EQ(job.state, JobState::kFailed);
  job.checkpoints.settlement.reset();
  EXPECT_EQ(Reason(RefuseResume(job, false)), "NO_CHECKPOINT");
  EXPECT_THAT(RefuseResume(job, false)->message,
              HasSubstr(absl::StrCat(kStep20, ", which is damaged: name another")));
  DropCheckpoint(job, {20, 1});
  EXPECT_THAT(RefuseResume(job, false)->message, HasSubstr("which is deleted"));
  EXPECT_EQ(Reason(RefuseResume(job, true)), "");
}

TEST(RestartTest, ResumedJobIsQueuedWithItsNewSpecAndTheNextPlanVersion) {
  JobRequest request = RestartingRequest();
  request.strategy_spec = "old";
  Job job = RunningJob(request);
  EXPECT_EQ(Reason(RefuseResume(job, true)), "JOB_NOT_ENDED");
  SaveAll(job, 20, At(5));
  job.profile = JobProfile{3, 40, 5, false, {Rank(1)}};
  FailRank1(job, FailureKind::kInput, At(6));
  EXPECT_EQ(Reason(RefuseResume(job, false)), "");
  request.ranks = 1;
  request.strategy_spec = "new";
  ResumeJob(job, request, "");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.request.ranks, 1);
  EXPECT_EQ(job.plan.version, PlanVersion(2));
  EXPECT_EQ(job.plan.strategy, "new");
  EXPECT_FALSE(job.failure.has_value());
  EXPECT_EQ(job.ended, absl::InfinitePast());
  EXPECT_THAT(job.profile->ranks, IsEmpty()) << "ranks that the job may not have any more";
  EXPECT_EQ(ChooseStart(job), kStep20);
}

TEST(RestartTest, JobWithoutACheckpointIsNotResumed) {
  Job job = RunningJob(RestartingRequest());
  FailRank1(job, FailureKind::kInput, At(6));
  EXPECT_THAT(RefuseResume(job, false)->message, HasSubstr("is being scanned"));
  job.checkpoints.settlement.reset();
  EXPECT_EQ(Reason(RefuseResume(job, false)), "NO_CHECKPOINT");
  EXPECT_EQ(Reason(RefuseResume(job, true)), "");
}

}  // namespace
}  // namespace paceline
