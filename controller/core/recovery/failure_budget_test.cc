#include "controller/core/recovery/failure_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(FailureBudgetTest, BudgetIsSpentByOneFailureTooMany) {
  MemberJob played;
  Job& job = played.job;
  for (int i = 0; i < 4; ++i) played.slots.Add("e", i);
  for (int i = 0; i < 3; ++i) {
    played.End(played.Id(2), 5 + i);
    ASSERT_EQ(job.state, JobState::kRecovering) << i;
    played.TrainAll(5.5 + i, 20 + i);
  }
  played.End(played.Id(1), 9);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason,
            "4th failure within 3600 s, recovery.max_failures is 3: rank 1 on b: killed by "
            "SIGKILL");
  TickJob(job, At(20));
  EXPECT_EQ(job.state, JobState::kFailed);
}

TEST(FailureBudgetTest, SpentBudgetLeavesTheRestartsOfTheSpec) {
  JobRequest request = MemberRequest();
  request.max_restarts = 1;
  request.recovery.max_failures = 1;
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(2), 5);
  played.TrainAll(6, 20);
  played.End(played.Id(1), 7);
  TickJob(job, At(20));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.restarts, 1);
  EXPECT_TRUE(job.recovery.failures.empty()) << "it starts over";
}

TEST(FailureBudgetTest, FailuresOutsideTheWindowDoNotCount) {
  MemberJob played;
  Job& job = played.job;
  for (int i = 0; i < 5; ++i) {
    played.slots.Add("e", i);
    played.End(played.Id(2), 10 + 2000 * i);
    EXPECT_EQ(job.state, JobState::kRecovering) << i;
    played.TrainAll(11 + 2000 * i, 20 + i);
  }
}

TEST(FailureBudgetTest, SameStepTwiceIsACrashLoop) {
  JobRequest request = MemberRequest();
  request.max_restarts = 5;
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(2), 5, FailureKind::kError, "boom");
  played.TrainAll(6, 10);
  played.End(played.Id(2), 7, FailureKind::kError, "boom");
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "crash loop: the same rank failed at step 10 before: rank 2 on e: boom");
  TickJob(job, At(20));
  EXPECT_EQ(job.state, JobState::kFailed) << "a restart would only repeat it";
}

TEST(FailureBudgetTest, ARankThatFailsBeforeItIsSeenToTrainIsInACrashLoopToo) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(2), 5, FailureKind::kError, "boom");
  ASSERT_EQ(job.state, JobState::kRecovering);
  played.Ready(played.Id(2), 5.5);
  TrainerReport report = played.Last(played.Id(2));
  report.progress.step = 10;
  FindTrainer(job, report.id)->report = report;
  played.End(report.id, 6, FailureKind::kError, "boom");
  EXPECT_EQ(job.reason, "crash loop: the same rank failed at step 10 before: rank 2 on e: boom");
}

// In a rehearsal it is in a phase of step 0, as a rank that trains is.
TEST(FailureBudgetTest, SparesThatDieInTheirRehearsalsAreInNoCrashLoop) {
  JobRequest request = MemberRequest();
  request.spares = 1;
  request.recovery.max_failures = 4;
  MemberJob played(std::move(request));
  Job& job = played.job;
  for (const char* node : {"e", "f", "g", "h"}) played.slots.Add(node);
  played.Advance(2);
  for (const int at : {3, 13}) {
    ASSERT_EQ(job.spares.size(), 1U) << at;
    const TrainerId spare = job.spares[0].report.id;
    played.Rehearse(spare, at);
    played.End(played.Id(2), at + 1);
    ASSERT_EQ(played.Id(2), spare) << "it has the seat before it is ready";
    played.End(spare, at + 2);
    ASSERT_EQ(job.state, JobState::kRecovering) << job.reason;
    EXPECT_THAT(job.reason, HasSubstr(", while it rehearsed a step: killed by SIGKILL"));
    played.TrainAll(at + 3, 20 + at);
  }
  EXPECT_EQ(job.recovery.failures.size(), 4U) << "a lost rank counts, whatever it did";
  played.End(played.Id(2), 20);
  EXPECT_THAT(job.reason, HasSubstr("5th failure within 3600 s"));
}

TEST(FailureBudgetTest, AnotherStepOrAnotherRankIsNoCrashLoop) {
  MemberJob played;
  Job& job = played.job;
  for (int i = 0; i < 3; ++i) played.slots.Add("e", i);
  played.End(played.Id(2), 5, FailureKind::kError, "boom");
  played.TrainAll(6, 10);
  played.End(played.Id(1), 7, FailureKind::kError, "boom");
  EXPECT_EQ(job.state, JobState::kRecovering);
  played.TrainAll(8, 11);
  played.End(played.Id(2), 9, FailureKind::kError, "boom");
  EXPECT_EQ(job.state, JobState::kRecovering);
}

TEST(FailureBudgetTest, BadInputIsNotRecoveredFrom) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(2), 5, FailureKind::kInput, "cannot read /data");
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.generation, Generation(1));
}

}  // namespace
}  // namespace paceline
