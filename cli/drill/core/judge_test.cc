#include "cli/drill/core/judge.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSteps = 12;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A step each second, the first after five, with losses 100, 101, ...
RunRecord SoundRun() {
  RunRecord run;
  run.job = "job-1";
  run.end = RunEnd::kSucceeded;
  run.submitted = At(0);
  run.took = absl::Seconds(20);
  for (int64_t step = 0; step < kSteps; ++step) {
    run.marks.push_back({step, absl::StrCat(100 + step), At(static_cast<double>(5 + step))});
  }
  run.ledger.emplace();
  run.ledger->epochs = {{0, 90, 0, 10}, {1, 20, 0, 80}};
  return run;
}

// The same with one rank lost and replaced.
RunRecord RecoveredRun() {
  RunRecord run = SoundRun();
  RankChange change;
  change.decided = At(9);
  change.trained = At(9.5);
  run.changes.push_back(change);
  return run;
}

JudgedJob JobOf() {
  JudgedJob job;
  job.steps = kSteps;
  job.replaces = true;
  job.timeouts = {absl::Seconds(10), absl::Seconds(20), absl::Seconds(30), absl::Minutes(10),
                  absl::Minutes(10)};
  return job;
}

DrillFinding Judged(DrillFault fault, const RunRecord& run, const JudgedJob& job = JobOf()) {
  return JudgeRun(fault, SoundRun(), run, job);
}

TEST(JudgeReferenceTest, TellsItsPace) {
  const DrillFinding finding = JudgeReference(SoundRun(), JobOf());
  EXPECT_EQ(finding.verdict, DrillVerdict::kPassed);
  EXPECT_EQ(finding.found, "12 steps, 1 s each, the longest 1 s; 5 s until the first");
}

TEST(JudgeReferenceTest, FailsWithTheJobsReason) {
  RunRecord run = SoundRun();
  run.end = RunEnd::kFailed;
  run.reason = "rank 0: no module named torch";
  const DrillFinding finding = JudgeReference(run, JobOf());
  EXPECT_EQ(finding.verdict, DrillVerdict::kFailed);
  EXPECT_THAT(finding.found, HasSubstr("no module named torch"));
}

TEST(JudgeReferenceTest, FailsWhenUndisturbedRanksAreLostOrStepsAreNotTold) {
  EXPECT_THAT(JudgeReference(RecoveredRun(), JobOf()).found,
              HasSubstr("though none was disturbed"));
  RunRecord run = SoundRun();
  run.marks.pop_back();
  EXPECT_THAT(JudgeReference(run, JobOf()).found, HasSubstr("11 steps of 12"));
}

TEST(FirstDifferenceTest, OfStepsMadeAgainTheLastCounts) {
  RunRecord run = SoundRun();
  run.marks.push_back({4, "7", At(30)});
  const auto difference = FirstDifference(SoundRun(), run);
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->step, 4);
  EXPECT_EQ(difference->expected, "104");
  EXPECT_EQ(difference->got, "7");
  run.marks.push_back({4, "104", At(31)});
  EXPECT_FALSE(FirstDifference(SoundRun(), run).has_value());
}

TEST(JudgeRunTest, SoundRunsPass) {
  EXPECT_EQ(Judged(DrillFault::kNone, SoundRun()).found, "the same losses; the same samples");
  EXPECT_EQ(Judged(DrillFault::kKill, RecoveredRun()).found,
            "the same losses; the same samples; no step for 1 s");
  EXPECT_THAT(Judged(DrillFault::kStop, RecoveredRun()).found, HasSubstr("hang_timeout_s is 20 s"));
  for (const DrillFault fault : {DrillFault::kSlow, DrillFault::kController}) {
    EXPECT_EQ(Judged(fault, SoundRun()).verdict, DrillVerdict::kPassed) << FaultName(fault);
  }
  RunRecord moved = RecoveredRun();
  moved.changes[0].planned = true;
  EXPECT_EQ(Judged(DrillFault::kDrain, moved).verdict, DrillVerdict::kPassed);
  RunRecord full = SoundRun();
  full.failed_saves = 3;
  EXPECT_THAT(Judged(DrillFault::kFullDisk, full).found, HasSubstr("3 saves failed"));
}

TEST(JudgeRunTest, StateOutsideOfAttachIsNamedWithItsStep) {
  RunRecord run = RecoveredRun();
  for (StepMark& mark : run.marks) {
    if (mark.step >= 4) mark.loss = "7";
  }
  const DrillFinding finding = Judged(DrillFault::kKill, run);
  EXPECT_EQ(finding.verdict, DrillVerdict::kFailed);
  EXPECT_EQ(finding.first_difference, 4);
  EXPECT_EQ(finding.found, "losses differ from step 4 on: 7 instead of 104");
  EXPECT_THAT(finding.mend, HasSubstr("run.attach"));
}

TEST(JudgeRunTest, ALoaderThatForgetsItsPositionIsSuspectedFirst) {
  RunRecord run = RecoveredRun();
  run.marks[5].loss = "7";
  run.ledger->epochs.clear();
  run.ledger->unknown = kSteps;
  EXPECT_THAT(Judged(DrillFault::kKill, run).mend, HasSubstr("run.loader"));
}

TEST(JudgeRunTest, AScriptThatDoesNotRepeatItselfIsToldOnceOnly) {
  RunRecord run = RecoveredRun();
  run.marks[5].loss = "7";
  RunRecord undisturbed = run;
  undisturbed.changes.clear();
  EXPECT_THAT(Judged(DrillFault::kNone, undisturbed).mend, HasSubstr("run.seed"));
  JudgedJob job = JobOf();
  job.losses_differ_anyway = "two undisturbed runs differ";
  const DrillFinding finding = Judged(DrillFault::kKill, run, job);
  EXPECT_EQ(finding.verdict, DrillVerdict::kPassed);
  EXPECT_THAT(finding.found, HasSubstr("losses not compared: two undisturbed runs differ"));
}

TEST(JudgeRunTest, SamplesUsedAgainAreToldUnlessRecordsAreMissing) {
  RunRecord run = RecoveredRun();
  run.ledger->epochs[0] = {0, 88, 2, 10};
  const DrillFinding finding = Judged(DrillFault::kKill, run);
  EXPECT_EQ(finding.verdict, DrillVerdict::kFailed);
  EXPECT_THAT(finding.found, HasSubstr("epoch 0 used 2 samples again"));
  run.ledger->missing = 4;
  EXPECT_THAT(Judged(DrillFault::kKill, run).found, HasSubstr("4 records missing"));
}

TEST(JudgeRunTest, ANewcomersLongFirstStepIsATimeoutThatIsTooShort) {
  RunRecord run = RecoveredRun();
  for (StepMark& mark : run.marks) {
    if (mark.step > 4) mark.time += absl::Seconds(40);
  }
  const DrillFinding finding = Judged(DrillFault::kKill, run);
  EXPECT_EQ(finding.verdict, DrillVerdict::kFailed);
  EXPECT_THAT(finding.found, HasSubstr("the first step with the new rank took 41 s"));
  EXPECT_THAT(finding.mend, AllOf(HasSubstr("collective_timeout_s"), HasSubstr("rehearse")));
}

TEST(JudgeRunTest, OneLossCostsOneChange) {
  RunRecord run = RecoveredRun();
  run.changes.push_back(run.changes[0]);
  EXPECT_THAT(Judged(DrillFault::kKill, run).found, HasSubstr("change 2 times"));
  EXPECT_THAT(Judged(DrillFault::kSlow, RecoveredRun()).found, HasSubstr("only slow"));
  EXPECT_EQ(Judged(DrillFault::kController, RecoveredRun()).verdict, DrillVerdict::kFailed);
}

TEST(JudgeRunTest, WhoDoesNotRecoverIsToldWhatWouldHelp) {
  RunRecord run = SoundRun();
  run.end = RunEnd::kFailed;
  run.reason = "rank 1 was killed by SIGKILL";
  JudgedJob job = JobOf();
  job.replaces = false;
  const DrillFinding finding = Judged(DrillFault::kKill, run, job);
  EXPECT_EQ(finding.verdict, DrillVerdict::kFailed);
  EXPECT_THAT(finding.found, HasSubstr("rank 1 was killed by SIGKILL"));
  EXPECT_THAT(finding.mend, HasSubstr("recovery: {max_failures: 10"));
  run.end = RunEnd::kTookTooLong;
  EXPECT_THAT(Judged(DrillFault::kKill, run).found, HasSubstr("had not recovered"));
}

TEST(JudgeRunTest, ANodeThatIsNotEmptiedFails) {
  EXPECT_THAT(Judged(DrillFault::kDrain, SoundRun()).found, HasSubstr("did not move"));
}

TEST(JudgeRunTest, WhatDidNotHappenIsNotRehearsed) {
  EXPECT_EQ(Judged(DrillFault::kKill, SoundRun()).verdict, DrillVerdict::kNotRehearsed);
  EXPECT_EQ(Judged(DrillFault::kFullDisk, SoundRun()).verdict, DrillVerdict::kNotRehearsed);
  RunRecord run = SoundRun();
  run.not_done = "the job ended before";
  const DrillFinding finding = Judged(DrillFault::kController, run);
  EXPECT_EQ(finding.verdict, DrillVerdict::kNotRehearsed);
  EXPECT_EQ(finding.found, "the job ended before");
  EXPECT_THAT(finding.mend, IsEmpty());
  run.end = RunEnd::kFailed;
  EXPECT_EQ(Judged(DrillFault::kController, run).verdict, DrillVerdict::kFailed);
}

}  // namespace
}  // namespace paceline
