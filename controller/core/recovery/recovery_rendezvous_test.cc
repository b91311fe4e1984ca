// What goes wrong between a loss and the rendezvous of the next members.
#include <gtest/gtest.h>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

TEST(RecoveryRendezvousTest, MembersThatWaitWithAnErrorRendezvousAgainAfterAMoment) {
  MemberJob played;
  Job& job = played.job;
  played.Wait(played.Id(0), 5);
  EXPECT_EQ(job.generation, Generation(1)) << "whose echo it is may still be told";
  EXPECT_EQ(NextDeadline(job), At(5.2).steady);
  played.Advance(5.2);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_EQ(job.reason, "rank 0 on a: connection reset; the members rendezvous again");
  EXPECT_EQ(job.recovery.failures.size(), 1U);
  EXPECT_EQ(job.recovery.failures[0].seat, -1);
  played.TrainAll(6);
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(RecoveryRendezvousTest, LossThatExplainsTheErrorCountsOnce) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.Wait(played.Id(0), 5);
  played.Advance(5.2);
  LoseNode(job, NodeName("c"), "gone", At(6));
  played.Advance(6);
  EXPECT_EQ(job.generation, Generation(3));
  ASSERT_EQ(job.recovery.failures.size(), 1U);
  EXPECT_EQ(job.recovery.failures[0].seat, 2);
}

TEST(RecoveryRendezvousTest, ErrorInTheRendezvousItselfMakesTheNextOne) {
  MemberJob played;
  Job& job = played.job;
  played.Wait(played.Id(0), 5);
  played.Advance(5.2);
  played.Wait(played.Id(0), 5.5);
  played.Advance(6);
  EXPECT_EQ(job.generation, Generation(2)) << "it has not heard of the generation yet";
  played.WaitAfter(Generation(2), played.Id(0), 7, "cannot connect to rank 3");
  played.Advance(7.2);
  EXPECT_EQ(job.generation, Generation(3));
}

TEST(RecoveryRendezvousTest, RendezvousThatDoesNotComeAboutIsTriedAgainThenGivenUp) {
  MemberJob played;
  Job& job = played.job;
  played.Wait(played.Id(0), 5);
  played.Advance(5.2);
  played.Train(played.Id(0), 6);
  played.Advance(35.1);
  EXPECT_EQ(job.generation, Generation(2));
  played.Advance(36);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.reason,
            "generation 2 did not come about within 30 s: rank 1 on b is missing; the members "
            "rendezvous again");
  played.Advance(37);
  played.Advance(67);
  EXPECT_EQ(job.generation, Generation(4));
  played.Advance(68);
  played.Advance(98);
  EXPECT_EQ(job.state, JobState::kStopping) << "the budget is spent";
}

TEST(RecoveryRendezvousTest, SurvivorThatFailsInTheChangeIsReplacedToo) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(2), 5);
  played.Train(played.Id(0), 6);
  played.End(played.Id(3), 6.5);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "abef");
  EXPECT_EQ(job.state, JobState::kRecovering);
  played.TrainAll(8);
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(RecoveryRendezvousTest, NewcomerThatFailsBeforeTheRendezvousIsReplacedToo) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(2), 5);
  played.End(played.Id(2), 6, FailureKind::kStart, "cannot start");
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "abfd");
}

TEST(RecoveryRendezvousTest, ChangeWaitsForTheSlotOfAMemberThatIsLostAfterTheRendezvous) {
  MemberJob played(MemberRequest(2));
  Job& job = played.job;
  played.slots.Add("e");
  played.End(job.ranks[1].report.id, 5);
  played.Ready(job.ranks[1].report.id, 6);
  played.Train(job.ranks[1].report.id, 7, 11);
  played.End(job.ranks[1].report.id, 8);
  played.Train(job.ranks[0].report.id, 9, 10);
  played.Advance(100);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.generation, Generation(2));
}

TEST(RecoveryRendezvousTest, JobWhoseRanksAllEndDuringAChangeIsQueuedAgain) {
  JobRequest request = MemberRequest(2);
  request.max_restarts = 1;
  MemberJob played(request);
  Job& job = played.job;
  played.slots.Add("e");
  played.End(job.ranks[1].report.id, 5);
  ASSERT_NE(ChangeUnderWay(job), nullptr);
  TrainerReport report = played.Last(job.ranks[1].report.id);
  report.state = TrainerState::kExited;
  report.exit = TrainerExit();
  report.exit->failure = FailureKind::kSignal;
  ApplyReport(job, job.ranks[1].slot.node, report, At(6));
  played.End(job.ranks[0].report.id, 6);
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(NextDeadline(job), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline
