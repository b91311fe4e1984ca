#include "controller/core/history/transition_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/history/event_text.h"
#include "controller/core/job/plan.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/testing/member_job.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// What has happened since the last look, in words. "!" marks a warning.
std::vector<std::string> Look(KnownJob& known, const Job& job) {
  std::vector<std::string> texts;
  for (const JobLifeEvent& event : EventsOf(job, known.Look(job))) {
    texts.push_back((event.warning ? "! " : "") + event.what);
  }
  return texts;
}

TEST(KnownJobTest, TellsALife) {
  KnownJob known;
  Job job = NewJob(PlayedRequest(), 1, At(0));
  job.reason = "waits for 2 slots";
  EXPECT_THAT(Look(known, job),
              ElementsAre("submitted as digits, 2 ranks, queue default", "waits for 2 slots"));
  EXPECT_THAT(Look(known, job), IsEmpty());
  PlaceOnBoth(job, At(1));
  EXPECT_THAT(Look(known, job), ElementsAre("generation 1 starts on a, b"));
  RunPlaced(job, At(2));
  EXPECT_THAT(Look(known, job), ElementsAre("all ranks train"));
  for (int rank = 0; rank < 2; ++rank) Exit(job, rank, FailureKind::kNone, "", At(3));
  EXPECT_THAT(Look(known, job), ElementsAre("all ranks finished"));
}

TEST(KnownJobTest, TellsEverythingThatHappensBetweenTwoLooks) {
  KnownJob known;
  EXPECT_THAT(Look(known, RunningJob()),
              ElementsAre("submitted as digits, 2 ranks, queue default",
                          "generation 1 starts on a, b", "all ranks train"));
}

TEST(KnownJobTest, TellsOnceThatAutoHasNoChoice) {
  JobRequest request = PlayedRequest();
  request.strategy.is_auto = true;
  Job job = RunningJob(request);
  KnownJob known(job);
  job.ranks[1].report.no_slipstream = "w is not float32";
  EXPECT_THAT(Look(known, job),
              ElementsAre("! strategy auto stays with ddp for this model: w is not float32"));
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsWhichLabelsHaveChanged) {
  JobRequest request = PlayedRequest();
  request.labels = {{"model", "llama"}, {"nightly", ""}, {"team", "audio"}};
  Job job = RunningJob(request);
  KnownJob known(job);
  EXPECT_THAT(Look(known, job), IsEmpty());
  job.request.labels = {{"example.com/a", "1"}, {"model", "llama"}, {"team", "vision"}};
  EXPECT_THAT(Look(known, job),
              ElementsAre("labels changed: example.com/a=1, nightly removed, team=vision"));
  EXPECT_THAT(Look(known, job), IsEmpty());
  job.request.description = "for ann";
  const std::vector<JobLifeEvent> described = EventsOf(job, known.Look(job));
  ASSERT_EQ(described.size(), 1U);
  EXPECT_EQ(described[0].what, "description changed");
  EXPECT_EQ(described[0].kind, JobEventKind::kLabels);
  job.request.labels.erase("team");
  job.request.description = "";
  EXPECT_THAT(Look(known, job), ElementsAre("labels changed: team removed; description changed"));
}

TEST(KnownJobTest, OfAStoredJobOnlyNewsAreTold) {
  const Job job = RunningJob();
  KnownJob known(job);
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsRestartsWithTheirCause) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 3;
  Job job = RunningJob(request);
  KnownJob known(job);
  Exit(job, 1, FailureKind::kSignal, "killed by signal 9", At(3));
  EXPECT_THAT(Look(known, job), ElementsAre("! rank 1 on b: killed by signal 9"));
  Exit(job, 0, FailureKind::kNone, "", At(4));
  EXPECT_THAT(Look(known, job), ElementsAre("! restart 1 of 3: rank 1 on b: killed by signal 9"));
  PlaceOnBoth(job, At(5));
  EXPECT_THAT(Look(known, job), ElementsAre("generation 2 starts on a, b"));
}

TEST(KnownJobTest, ARestartThatHappensAtOnceIsToldWithItsStart) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 3;
  Job job = RunningJob(request);
  KnownJob known(job);
  FailRank1(job, FailureKind::kSignal, At(3));
  PlaceOnBoth(job, At(3));
  RunPlaced(job, At(4));
  EXPECT_THAT(Look(known, job),
              ElementsAre(StartsWith("! restart 1 of 3"), "generation 2 starts on a, b"));
}

TEST(KnownJobTest, TellsFailureAsAWarning) {
  Job job = RunningJob();
  KnownJob known(job);
  FailRank1(job, FailureKind::kSignal, At(3));
  EXPECT_THAT(Look(known, job), ElementsAre("! rank 1 on b: killed by signal 9"));
}

TEST(KnownJobTest, TellsThatItIsQueuedAgain) {
  Job job = RunningJob();
  KnownJob known(job);
  RequeueJob(job, "drain of a by ann: its fan is loud", absl::Seconds(1), At(3));
  EXPECT_THAT(Look(known, job), ElementsAre("drain of a by ann: its fan is loud"));
  for (int rank = 0; rank < 2; ++rank) Exit(job, rank, FailureKind::kNone, "", At(4));
  EXPECT_THAT(Look(known, job), ElementsAre("queued again: drain of a by ann: its fan is loud"));
}

TEST(KnownJobTest, TellsCheckpointsAndTheirFailures) {
  Job job = RunningJob();
  KnownJob known(job);
  SaveAll(job, 100, At(3));
  EXPECT_THAT(Look(known, job), ElementsAre("checkpoint of step 100 is complete, 200 B, in "
                                            "/ckpt/job-1/step-000000000100.g1"));
  TellSaves(job, 1, {Reported(200, SaveState::kFailed)}, At(4));
  EXPECT_THAT(Look(known, job), ElementsAre(HasSubstr("the disk is full")));
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsThatAStopWaitsForACheckpoint) {
  Job job = RunningJob();
  KnownJob known(job);
  StopWhenSaved(job, "cancelled by ann", absl::Seconds(1), At(3));
  EXPECT_THAT(Look(known, job),
              ElementsAre("is to end when a checkpoint is saved: cancelled by ann"));
}

TEST(KnownJobTest, TellsEvaluations) {
  Job job = RunningJob();
  KnownJob known(job);
  TrainerReport report = PlayedReport(job, 0, TrainerState::kRunning);
  report.evaluation = Evaluation{100, 0.9725, 0.1234, 359};
  Tell(job, report, At(3));
  EXPECT_THAT(Look(known, job),
              ElementsAre("evaluated after step 100: accuracy 97.25 %, loss 0.1234"));
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsPlansAndWhoTakesThemUp) {
  JobRequest request = PlayedRequest();
  request.strategy.has_ladder = true;
  Job job = RunningJob(request);
  KnownJob known(job);
  JobPlan plan = job.plan;
  plan.strategy = "another";
  plan.ladder = {{4, LadderScope::kAll, 0}};
  ChangePlan(job, plan);
  EXPECT_THAT(Look(known, job), ElementsAre("plan version 2: ladder 4:all"));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(Look(known, job), IsEmpty());
    TrainerReport report = PlayedReport(job, rank, TrainerState::kRunning);
    report.plan.prepared = report.plan.active = PlanVersion(2);
    report.plan.active_since_step = 120;
    Tell(job, report, At(3));
  }
  EXPECT_THAT(Look(known, job), ElementsAre("all ranks train by plan version 2 since step 120"));
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsThatAPlanCouldNotBePrepared) {
  JobRequest request = PlayedRequest();
  request.strategy.has_ladder = true;
  Job job = RunningJob(request);
  KnownJob known(job);
  JobPlan plan = job.plan;
  plan.strategy = "another";
  ChangePlan(job, plan);
  Look(known, job);
  TrainerReport report = PlayedReport(job, 1, TrainerState::kRunning);
  report.plan.failed = PlanVersion(2);
  report.plan.error = "no memory";
  Tell(job, report, At(3));
  EXPECT_THAT(Look(known, job),
              ElementsAre("! plan version 2 is not taken up, as rank 1 on b could "
                          "not prepare it: no memory"));
  EXPECT_THAT(Look(known, job), IsEmpty());
}

TEST(KnownJobTest, TellsOnceWhyAJobStops) {
  Job job = RunningJob();
  KnownJob known(job);
  CancelJob(job, "cancelled by ann", absl::Seconds(1), At(4));
  EXPECT_THAT(Look(known, job), ElementsAre("cancelled by ann"));
  for (int rank = 0; rank < 2; ++rank) Exit(job, rank, FailureKind::kNone, "", At(5));
  EXPECT_THAT(Look(known, job), ElementsAre("the job is cancelled"));
}

TEST(KnownJobTest, TellsAResumption) {
  Job job = RunningJob();
  SaveAll(job, 100, At(3));
  CancelJob(job, "cancelled by ann", absl::Seconds(1), At(4));
  for (int rank = 0; rank < 2; ++rank) Exit(job, rank, FailureKind::kNone, "", At(5));
  KnownJob known(job);
  ResumeJob(job, job.request, "");
  EXPECT_THAT(Look(known, job), ElementsAre("resumed from /ckpt/job-1/step-000000000100.g1"));
}

TEST(KnownJobTest, TellsWhoTookALostRanksPlace) {
  MemberJob played;
  KnownJob known(played.job);
  played.slots.Add("e");
  played.End(played.Id(2), 10);
  EXPECT_THAT(Look(known, played.job),
              ElementsAre(::testing::AllOf(StartsWith("! generation 2: rank 2 on c"),
                                           HasSubstr("killed by SIGKILL"), HasSubstr(" on e "))));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
  for (int rank = 0; rank < 4; ++rank) {
    if (played.job.ranks[static_cast<size_t>(rank)].report.store_address.empty()) {
      played.Ready(played.Id(rank), 11);
    }
  }
  played.TrainAll(12, 20);
  EXPECT_THAT(
      Look(known, played.job),
      ElementsAre(StartsWith("generation 2 trains on from step 20 with 4 ranks, after 2 s")));
}

TEST(KnownJobTest, TellsThatALostRankWaitsForASlot) {
  MemberJob played;
  KnownJob known(played.job);
  played.End(played.Id(2), 10);
  EXPECT_THAT(Look(known, played.job), ElementsAre(HasSubstr("waits for 1 slot")));
}

TEST(KnownJobTest, TellsOfSparesThatFailUntilTheirPausesGrowNoMore) {
  JobRequest request = MemberRequest();
  request.spares = 1;
  request.timeouts = JobTimeouts();
  MemberJob played(std::move(request));
  Job& job = played.job;
  for (int i = 0; i < 10; ++i) played.slots.Add("e", i);
  KnownJob known(job);
  std::vector<std::vector<std::string>> told;
  for (int i = 0; i < 9; ++i) {
    played.Advance(100 * (i + 1));
    ASSERT_EQ(job.spares.size(), 1U) << i;
    const TrainerId spare = job.spares[0].report.id;
    if (i == 0) played.Rehearse(spare, 100 * (i + 1));
    if (i == 8) played.Ready(spare, 100 * (i + 1));
    played.End(spare, 100 * (i + 1) + 1);
    told.push_back(Look(known, job));
    EXPECT_THAT(Look(known, job), IsEmpty());
  }
  EXPECT_THAT(told[0], ElementsAre("! a spare on e failed while it rehearsed a step: killed by "
                                   "SIGKILL; another one starts after 1 s at the earliest"));
  EXPECT_THAT(told[1], ElementsAre("! a spare on e failed: killed by SIGKILL; another one starts "
                                   "after 2 s at the earliest"));
  EXPECT_THAT(
      told[6],
      ElementsAre("! a spare on e failed: killed by SIGKILL; 7 have failed in a row; until "
                  "one is ready, no more such failures are reported, and the next ones start "
                  "each after 60 s at the earliest"));
  EXPECT_THAT(told[7], IsEmpty());
  EXPECT_THAT(told[8], ElementsAre(HasSubstr("another one starts after 1 s")));
}

TEST(KnownJobTest, TellsDrainsThatMoveIt) {
  MemberJob played;
  KnownJob known(played.job);
  RequestReplacement(played.job, NodeName("b"), "drained by ann: its fan is loud");
  EXPECT_THAT(Look(known, played.job),
              ElementsAre("its ranks will move off b: drained by ann: its fan is loud"));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
}

TEST(KnownJobTest, TellsOfADrainThatWaitsForANodeToAnswer) {
  MemberJob played;
  KnownJob known(played.job);
  NoteWaitingDrain(played.job, NodeName("b"), "node b is drained (now) by ann: burnt", At(20));
  EXPECT_THAT(Look(known, played.job),
              ElementsAre("! node b is drained (now) by ann: burnt; what it has there does not end "
                          "yet: none of the job's nodes answers, and its ranks may train on with "
                          "each other; this waits until one of the nodes answers again, or b, if "
                          "it is off for certain, is declared lost: paceline node lost b --reason "
                          "TEXT"));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
}

// All members report their copies of this step as made, or, if `fails`, all but rank 1.
void TellCopies(MemberJob& played, int64_t step, bool fails, double at) {
  for (int rank = 0; rank < 4; ++rank) {
    TrainerReport report = played.Last(played.Id(rank));
    CopyStatus& copies = report.membership.copies;
    copies.generation = played.job.generation;
    copies.settled_step = step;
    const bool has_failed = fails && rank == 1;
    (has_failed ? copies.failed_step : copies.copied_step) = step;
    copies.error = has_failed ? "the connection broke" : "";
    played.Tell(report, at);
  }
}

TEST(KnownJobTest, TellsOnceThatCopiesFailAndOnceThatTheyAreInTimeAgain) {
  JobRequest request = MemberRequest();
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  KnownJob known(played.job);
  TellCopies(played, 10, /*fails=*/false, 2);
  EXPECT_THAT(Look(known, played.job), IsEmpty());
  TellCopies(played, 20, /*fails=*/true, 3);
  EXPECT_THAT(Look(known, played.job),
              ElementsAre(StartsWith("! no copies in memory are complete since step 20")));
  TellCopies(played, 30, /*fails=*/true, 4);
  EXPECT_THAT(Look(known, played.job), IsEmpty());
  played.TrainAll(5, 50);
  EXPECT_THAT(Look(known, played.job), IsEmpty()) << "they are late for that";
  TellCopies(played, 50, /*fails=*/false, 6);
  EXPECT_THAT(Look(known, played.job),
              ElementsAre("copies in host memory are in time again: the state after step 50"));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
}

TEST(KnownJobTest, TellsThatNoStepIsMadeAndThatTheyAreAgain) {
  MemberJob played;
  KnownJob known(played.job);
  played.TrainAll(20, 20);
  Look(known, played.job);
  played.Advance(35);
  ASSERT_TRUE(played.job.recovery.stalled);
  EXPECT_THAT(Look(known, played.job), ElementsAre(StartsWith("! ")));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
  played.TrainAll(36, 21);
  EXPECT_THAT(Look(known, played.job), ElementsAre("steps are made again"));
}

TEST(KnownJobTest, TellsOnceThatAGenerationMakesNoCopies) {
  JobRequest request = MemberRequest();
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  KnownJob known(played.job);
  for (const int rank : {1, 2}) {
    TrainerReport report = played.Last(played.Id(rank));
    report.membership.can_keep_copies = false;
    played.Tell(report, 2);
    const std::vector<std::string> told = Look(known, played.job);
    if (rank == 2) {
      EXPECT_THAT(told, IsEmpty()) << "it is the same trouble";
    } else {
      EXPECT_THAT(told, ElementsAre(StartsWith("! trains without copies in host memory: the "
                                               "trainer of rank 1 on b is of an earlier release")));
    }
  }
}

TEST(KnownJobTest, TellsThatCopiesAreLateAndThatTheyAreInTimeAgain) {
  JobRequest request = MemberRequest();
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  KnownJob known(played.job);
  played.TrainAll(5, 40);
  EXPECT_THAT(Look(known, played.job),
              ElementsAre(StartsWith("! copies in host memory are late, and a loss may cost 40 "
                                     "steps; nothing yet")));
  played.TrainAll(6, 50);
  EXPECT_THAT(Look(known, played.job), IsEmpty());
  for (int rank = 0; rank < 4; ++rank) {
    TrainerReport report = played.Last(played.Id(rank));
    report.membership.copies = {played.job.generation, 50, 50, "", 0};
    played.Tell(report, 7);
  }
  EXPECT_THAT(Look(known, played.job),
              ElementsAre("copies in host memory are in time again: the state after step 50"));
  EXPECT_THAT(Look(known, played.job), IsEmpty());
}

TEST(KnownJobTest, CollectivesThatRanksStandInAreToldOnce) {
  MemberJob played;
  KnownJob known(played.job);
  played.job.collectives.findings = {"all_reduce #5: rank 0 is in it", "rank 1 is away"};
  EXPECT_THAT(Look(known, played.job),
              ElementsAre("! all_reduce #5: rank 0 is in it; rank 1 is away"));
  played.job.collectives.reported = At(9).wall;
  EXPECT_THAT(Look(known, played.job), IsEmpty());
}

}  // namespace
}  // namespace paceline
