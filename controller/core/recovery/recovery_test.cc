#include "controller/core/recovery/recovery.h"

#include <gtest/gtest.h>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

TEST(RecoveryTest, NewTrainerTakesTheRankOfOneThatWasKilled) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(2), 5);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abed");
  EXPECT_EQ(played.Id(2), (TrainerId{JobId("job-1"), Generation(2), Rank(2)}));
  EXPECT_EQ(played.Id(3), (TrainerId{JobId("job-1"), Generation(1), Rank(3)}))
      << "survivors keep their processes";
  EXPECT_EQ(job.plan.version, PlanVersion(2));
  EXPECT_EQ(MembershipOf(job, job.ranks[3]).store_address, "") << "the newcomer is not ready";
  EXPECT_FALSE(MembershipOf(job, job.ranks[3]).planned);
  played.Ready(played.Id(2), 6);
  EXPECT_NE(MembershipOf(job, job.ranks[3]).store_address, "");
  played.TrainAll(7, 11);
  EXPECT_EQ(job.state, JobState::kRunning);
  ASSERT_EQ(job.recovery.history.size(), 1U);
  EXPECT_EQ(job.recovery.history[0].reason,
            "rank 2 on c: killed by SIGKILL; a new trainer on e takes seat 2");
  EXPECT_EQ(job.recovery.history[0].step, 11);
  EXPECT_EQ(job.recovery.history[0].ended, At(7).wall);
}

TEST(RecoveryTest, ANewcomerIsAtTheStepOfTheOthersOfItsRendezvous) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(2), 5);
  played.Ready(played.Id(2), 6);
  for (const int seat : {0, 1, 3}) played.Train(played.Id(seat), 7, 11);
  TrainerReport met = played.Last(played.Id(2));
  met.state = TrainerState::kRunning;
  met.membership.generation = job.generation;
  met.membership.step = 11;
  met.progress = Progress();  // It has made no step yet.
  played.Tell(met, 7);
  ASSERT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.recovery.history[0].step, 11);
}

// Whether a later save is complete, no rank can know.
TEST(RecoveryTest, MembersOfAChangedGenerationAreToldWhichStepIsSaved) {
  JobRequest request = MemberRequest();
  request.checkpoints.directory = "/ckpt";
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  EXPECT_FALSE(MembershipOf(job, job.ranks[0]).saved_step.has_value())
      << "all have their own count";
  played.End(played.Id(2), 5);
  for (const RankState& member : job.ranks) EXPECT_EQ(MembershipOf(job, member).saved_step, 0);
  played.Ready(played.Id(2), 6);
  played.TrainAll(7);
  EXPECT_FALSE(MembershipOf(job, job.ranks[0]).saved_step.has_value());
  Checkpoint checkpoint;
  checkpoint.key = {20, 2};
  job.checkpoints.records.push_back(checkpoint);
  played.End(played.Id(1), 8);
  for (const RankState& member : job.ranks) EXPECT_EQ(MembershipOf(job, member).saved_step, 20);
  job.request.checkpoints.directory = "";
  EXPECT_FALSE(MembershipOf(job, job.ranks[0]).saved_step.has_value()) << "it saves nothing";
}

TEST(RecoveryTest, ReadySpareGoesBeforeOneThatStillStarts) {
  JobRequest request = MemberRequest();
  request.spares = 2;
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.Advance(2);
  ASSERT_EQ(job.spares.size(), 2U);
  const TrainerId ready = job.spares[1].report.id;
  EXPECT_EQ(ready, (TrainerId{JobId("job-1"), Generation(1), Rank(5)}));
  EXPECT_EQ(MembershipOf(job, job.spares[1]).rank, Rank(-1));
  played.Ready(ready, 3);
  played.End(played.Id(0), 5);
  EXPECT_EQ(played.Nodes(), "fbcd");
  EXPECT_EQ(played.Id(0), ready) << "it keeps its identity";
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).rank, Rank(0));
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).store_address, "f:1")
      << "all members are ready: the rendezvous may begin";
}

TEST(RecoveryTest, ConsumedSpareIsReplacedWhenAllTrainAgain) {
  JobRequest request = MemberRequest();
  request.spares = 1;
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.Advance(2);
  played.Ready(job.spares[0].report.id, 3);
  played.End(played.Id(0), 5);
  EXPECT_TRUE(job.spares.empty());
  EXPECT_EQ(played.slots.size(), 1U) << "nothing else is started while ranks wait";
  played.TrainAll(6);
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(job.spares[0].slot.node, NodeName("f"));
  EXPECT_EQ(job.spares[0].report.id, (TrainerId{JobId("job-1"), Generation(2), Rank(4)}));
}

TEST(RecoveryTest, SpareThatDiesWhileItStartsIsTriedAgainLaterAndLater) {
  JobRequest request = MemberRequest();
  request.spares = 1;
  MemberJob played(std::move(request));
  Job& job = played.job;
  for (int i = 0; i < 4; ++i) played.slots.Add("e", i);
  played.Advance(2);
  played.End(job.spares.at(0).report.id, 3);
  EXPECT_TRUE(job.spares.empty());
  EXPECT_EQ(job.state, JobState::kRunning) << "no rank was lost";
  EXPECT_EQ(NextDeadline(job), At(4).steady);
  played.Advance(4);
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(job.spares[0].report.id.rank, Rank(5)) << "no identity is used twice";
  played.End(job.spares[0].report.id, 5);
  played.Advance(6.9);
  EXPECT_TRUE(job.spares.empty());
  played.Advance(7);
  EXPECT_EQ(job.spares.size(), 1U);
  EXPECT_TRUE(job.recovery.failures.empty());
}

TEST(RecoveryTest, ASpareThatStandsByDoesNotHastenOthersThatFail) {
  JobRequest request = MemberRequest();
  request.spares = 2;
  MemberJob played(std::move(request));
  Job& job = played.job;
  for (int i = 0; i < 4; ++i) played.slots.Add("e", i);
  played.Advance(2);
  const auto spare = [](int rank) { return TrainerId{JobId("job-1"), Generation(1), Rank(rank)}; };
  played.Ready(spare(4), 2.5);
  played.End(spare(5), 3);
  played.Advance(4);
  ASSERT_EQ(job.spares.size(), 2U);
  played.End(spare(6), 5);
  played.Advance(6.9);
  EXPECT_EQ(job.spares.size(), 1U);
  played.Advance(7);
  ASSERT_EQ(job.spares.size(), 2U);
  played.Ready(spare(7), 8);
  EXPECT_EQ(job.recovery.spares_failed, 0);
}

TEST(RecoveryTest, TwoRanksLostOneAfterTheOtherMakeTwoGenerations) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(1), 5);
  played.End(played.Id(2), 5.1);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "aefd");
  EXPECT_EQ(played.Id(1), (TrainerId{JobId("job-1"), Generation(2), Rank(1)}));
  EXPECT_EQ(played.Id(2), (TrainerId{JobId("job-1"), Generation(3), Rank(2)}));
  played.Ready(played.Id(1), 6);
  EXPECT_EQ(StoreAddress(job), "");
  played.Ready(played.Id(2), 6);
  played.TrainAll(7);
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(RecoveryTest, RanksOfALostNodeAreReplacedInOneGeneration) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("e", 2);
  for (RankState& member : job.ranks) {
    if (member.seat > 1) member.slot.node = NodeName("c");
  }
  LoseNode(job, NodeName("c"), "its node is lost", At(5));
  played.Advance(5);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abee");
  EXPECT_EQ(job.recovery.failures.size(), 2U) << "each rank counts";
}

TEST(RecoveryTest, LateReportOfAnOldGenerationChangesNothing) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  const TrainerId old = played.Id(2);
  const TrainerReport report = played.Last(old);
  played.End(old, 5);
  EXPECT_EQ(ApplyReport(job, NodeName("c"), report, At(6)), JobChange::kNone);
  TrainerReport elsewhere = played.Last(played.Id(2));
  elsewhere.state = TrainerState::kRunning;
  EXPECT_EQ(ApplyReport(job, NodeName("a"), elsewhere, At(6)), JobChange::kNone);
  played.Wait(played.Id(0), 6);
  played.Advance(10);
  EXPECT_EQ(job.generation, Generation(2)) << "why it left the generation before is known";
  EXPECT_EQ(job.recovery.failures.size(), 1U);
}

TEST(RecoveryTest, WithoutASlotTheOthersWaitAndTheJobGoesOnWhenThereIsOne) {
  MemberJob played;
  Job& job = played.job;
  played.End(played.Id(2), 5);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.generation, Generation(1));
  EXPECT_EQ(job.reason, "rank 2 on c: killed by SIGKILL; waits for 1 slot");
  EXPECT_EQ(NextDeadline(job), At(7).steady);
  EXPECT_EQ(played.Advance(7), JobChange::kNone);
  EXPECT_EQ(job.recovery.failures.size(), 1U) << "it counts once";
  played.slots.Add("e");
  played.Advance(50);
  EXPECT_EQ(job.generation, Generation(2));
}

TEST(RecoveryTest, SurvivorsThatWaitForASlotAreNoFailures) {
  MemberJob played;
  Job& job = played.job;
  const TrainerId survivor = played.Id(0);
  played.End(played.Id(2), 5);
  played.Wait(survivor, 5.1);
  for (int tick = 11; tick < 60; ++tick) played.Advance(0.5 * tick);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.reason, "rank 2 on c: killed by SIGKILL; waits for 1 slot");
  EXPECT_EQ(job.recovery.failures.size(), 1u);
}

TEST(RecoveryTest, WaitingForASlotEndsAtGiveUp) {
  MemberJob played;
  Job& job = played.job;
  played.End(played.Id(2), 5);
  played.Advance(604);
  EXPECT_EQ(job.state, JobState::kRecovering);
  played.Advance(605);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason,
            "the members could not go on within give_up_s (600 s): rank 2 on c: killed by "
            "SIGKILL");
  EXPECT_EQ(job.failure->rank, Rank(2));
}

TEST(RecoveryTest, AllLostAtOnceStartAgainFromTheCheckpointWithinTheBudget) {
  JobRequest request = MemberRequest(2);
  MemberJob played(std::move(request));
  Job& job = played.job;
  LoseNode(job, NodeName("a"), "gone", At(5));
  LoseNode(job, NodeName("b"), "gone", At(5));
  played.Advance(5);
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.restart_reason, "restart 1: no rank is left with its state: rank 0 on a: gone");
  EXPECT_TRUE(job.ranks.empty());
}

TEST(RecoveryTest, FailureBeforeAllTrainIsNotRecoveredFromButCounts) {
  Job job = NewJob(MemberRequest(2), 1, At(0));
  PlaceOnBoth(job, At(1));
  Exit(job, 1, FailureKind::kSignal, "killed", At(2));
  EXPECT_EQ(job.state, JobState::kStopping);
  Exit(job, 0, FailureKind::kNone, "", At(2.1));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.recovery.failures.size(), 1U);
}

TEST(RecoveryTest, LostGroupOfTheLadderTakesItsStateAlong) {
  JobRequest request = MemberRequest();
  request.strategy.ladder = {{2, LadderScope::kSize, 2}, {4, LadderScope::kAll}};
  MemberJob played(request);
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(2), 5);
  EXPECT_EQ(played.job.state, JobState::kRecovering);
  played.End(played.Id(3), 6);
  EXPECT_EQ(played.job.state, JobState::kStopping)
      << "the newcomer for rank 2 has not got the state of its group yet";
  EXPECT_EQ(played.job.reason,
            "no rank is left with the state of ranks 2 to 3: rank 3 on d: killed by SIGKILL");

  MemberJob other(request);
  other.slots.Add("e");
  other.slots.Add("f");
  other.End(other.Id(0), 5);
  other.End(other.Id(3), 6);
  EXPECT_EQ(other.job.state, JobState::kRecovering) << "one of each group is left";
}

TEST(RecoveryTest, NothingIsReplacedWhenOtherRanksAreDone) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(0), 5, FailureKind::kNone, "");
  EXPECT_EQ(job.state, JobState::kRunning);
  played.End(played.Id(1), 6);
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_EQ(job.reason, "other ranks have done all steps: rank 1 on b: killed by SIGKILL");
}

TEST(RecoveryTest, AllRanksThatFinishEndTheJobAndItsSpares) {
  JobRequest request = MemberRequest(2);
  request.spares = 1;
  MemberJob played(std::move(request));
  Job& job = played.job;
  played.slots.Add("e");
  played.Advance(2);
  played.Ready(job.spares[0].report.id, 3);
  played.End(played.Id(0), 5, FailureKind::kNone, "");
  ASSERT_EQ(job.leaving.size(), 1U) << "nothing is replaced any more";
  EXPECT_TRUE(StopGrace(job, job.leaving[0]).has_value());
  played.End(played.Id(1), 6, FailureKind::kNone, "");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_TRUE(TrainersOf(job).size() == 2 && job.leaving.empty());
}

TEST(RecoveryTest, JobIsCancelledWhileItRecovers) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.End(played.Id(0), 5);
  CancelJob(job, "cancelled by request", absl::Seconds(5), At(6));
  EXPECT_EQ(job.state, JobState::kStopping);
  played.Advance(6);
  for (const RankState& member : std::vector<RankState>(job.ranks)) {
    played.End(member.report.id, 7, FailureKind::kNone, "");
  }
  EXPECT_EQ(job.state, JobState::kCancelled);
}

TEST(RecoveryTest, JobThatIsSavedToBeStoppedRecoversFirstButNotForEver) {
  JobRequest request = MemberRequest();
  request.checkpoints.directory = "/ckpt";
  MemberJob played(std::move(request));
  Job& job = played.job;
  StopWhenSaved(job, "cancelled by request", absl::Seconds(5), At(4));
  played.End(played.Id(0), 5);
  EXPECT_EQ(job.state, JobState::kRecovering);
  TickJob(job, At(100));
  EXPECT_EQ(job.state, JobState::kRecovering);
  TickJob(job, At(604));
  EXPECT_EQ(job.state, JobState::kStopping);
  EXPECT_TRUE(job.asked_to_stop);
}

TEST(RecoveryTest, WithoutRecoveryAFailureEndsTheGenerationAsEver) {
  JobRequest request = MemberRequest();
  request.recovery.max_failures = 0;
  MemberJob played(std::move(request));
  played.slots.Add("e");
  played.End(played.Id(2), 5);
  EXPECT_EQ(played.job.state, JobState::kStopping);
  EXPECT_EQ(played.job.reason, "rank 2 on c: killed by SIGKILL");
  EXPECT_EQ(played.slots.size(), 1U);
}

}  // namespace
}  // namespace paceline
