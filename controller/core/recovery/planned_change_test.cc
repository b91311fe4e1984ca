#include "controller/core/recovery/planned_change.h"

#include <gtest/gtest.h>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/job/plan.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

// A job that is leaving node c: the newcomer on e is ready, and the planned generation has begun.
MemberJob MovingJob() {
  MemberJob played;
  played.slots.Add("e");
  EXPECT_EQ(RequestReplacement(played.job, NodeName("c"), "drained by ann"), JobChange::kState);
  played.Advance(20);
  EXPECT_EQ(played.job.spares.size(), 1U);
  EXPECT_EQ(played.job.generation, Generation(1)) << "the newcomer is not ready";
  played.Ready(played.job.spares[0].report.id, 21);
  EXPECT_EQ(played.job.generation, Generation(2));
  return played;
}

TEST(PlannedChangeTest, RankMovesWhileTheJobTrains) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(played.Nodes(), "abed");
  EXPECT_EQ(job.reason, "rank 2 moves from c to e (drained by ann)");
  const Membership newcomer = MembershipOf(job, job.ranks[2]);
  EXPECT_TRUE(newcomer.planned);
  EXPECT_EQ(newcomer.rank, Rank(2));
  EXPECT_EQ(newcomer.store_address, "x:1") << "all have stores, so the rendezvous may begin";
  ASSERT_EQ(job.leaving.size(), 1U);
  const TrainerId old = job.leaving[0].report.id;
  EXPECT_EQ(old, (TrainerId{JobId("job-1"), Generation(1), Rank(2)}));
  const Membership leaver = MembershipOf(job, job.leaving[0]);
  EXPECT_TRUE(leaver.planned);
  EXPECT_EQ(leaver.generation, Generation(2));
  EXPECT_EQ(leaver.rank, Rank(-1));
  EXPECT_EQ(StopGrace(job, job.leaving[0]), std::nullopt)
      << "it trains on until the rendezvous is done";
  played.TrainAll(22, 30);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_TRUE(job.recovery.history.back().planned);
  EXPECT_EQ(job.recovery.history.back().ended, At(22).wall);
  EXPECT_TRUE(StopGrace(job, job.leaving.at(0)).has_value());
  EXPECT_TRUE(HasTrainersOn(job, NodeName("c")));
  played.End(old, 23, FailureKind::kNone, "");
  EXPECT_FALSE(HasTrainersOn(job, NodeName("c")));
  EXPECT_TRUE(job.recovery.vacate.empty());
  EXPECT_TRUE(job.recovery.failures.empty());
}

TEST(PlannedChangeTest, TheSameRanksGoOnByAnotherStrategy) {
  MemberJob played;
  Job& job = played.job;
  ChangePlan(job, {{}, "free", {}, SlipstreamChoice()});
  EXPECT_EQ(job.plan.strategy, "");
  played.Advance(20);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(job.plan.strategy, "free");
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.reason, "the ranks go on with slipstream");
  EXPECT_TRUE(MembershipOf(job, job.ranks[2]).planned);
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_TRUE(job.leaving.empty());
  played.TrainAll(22, 30);
  EXPECT_EQ(ChangeUnderWay(job), nullptr);
  EXPECT_FALSE(job.former_plan.has_value());
  // Later changes do not take the plan back.
  played.slots.Add("e");
  played.End(job.ranks[1].report.id, 40, FailureKind::kSignal, "killed");
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.plan.strategy, "free");
}

TEST(PlannedChangeTest, AnotherStrategyIsCalledOffWithALoss) {
  MemberJob played;
  Job& job = played.job;
  ChangePlan(job, {{}, "free", {}, SlipstreamChoice()});
  played.Advance(20);
  ASSERT_EQ(job.plan.strategy, "free");
  played.slots.Add("e");
  played.End(job.ranks[1].report.id, 21, FailureKind::kSignal, "killed");
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.plan.strategy, "");
  EXPECT_FALSE(job.plan.slipstream.has_value());
  EXPECT_EQ(job.plan.version, PlanVersion(3));
}

TEST(PlannedChangeTest, AnotherStrategyThatRanksRefuseIsCalledOff) {
  MemberJob played;
  Job& job = played.job;
  ChangePlan(job, {{}, "free", {}, SlipstreamChoice()});
  played.Advance(20);
  ASSERT_EQ(job.plan.strategy, "free");
  for (int rank = 0; rank < 4; ++rank) {
    played.WaitAfter(Generation(2), played.Id(rank), 21, "w is not float32");
  }
  played.Advance(30);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.state, JobState::kRecovering) << job.reason;
  EXPECT_EQ(job.reason, "rank 0 on a: w is not float32; the members rendezvous again");
  EXPECT_EQ(job.plan.strategy, "");
  EXPECT_TRUE(job.recovery.failures.empty()) << "the job has done nothing wrong";
  played.TrainAll(31, 30);
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(PlannedChangeTest, WaitsForASlotAndForTheNewcomer) {
  MemberJob played;
  Job& job = played.job;
  RequestReplacement(job, NodeName("c"), "drained");
  EXPECT_EQ(RequestReplacement(job, NodeName("c"), "drained"), JobChange::kNone);
  EXPECT_EQ(RequestReplacement(job, NodeName("z"), "drained"), JobChange::kNone);
  played.Advance(20);
  EXPECT_TRUE(job.spares.empty());
  played.slots.Add("e");
  played.Advance(21);
  EXPECT_EQ(job.spares.size(), 1U);
}

TEST(PlannedChangeTest, WithdrawnRequestReleasesTheNewcomer) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("c"), "drained");
  played.Advance(20);
  ASSERT_EQ(job.spares.size(), 1U);
  WithdrawReplacement(job, NodeName("c"));
  played.Advance(21);
  EXPECT_TRUE(job.spares.empty());
  EXPECT_EQ(job.leaving.size(), 1U);
  EXPECT_EQ(job.generation, Generation(1));
}

TEST(PlannedChangeTest, SpareOnTheNodeLeavesAtOnceAndIsReplaced) {
  JobRequest request = MemberRequest();
  request.spares = 1;
  MemberJob played(request);
  Job& job = played.job;
  played.slots.Add("z");
  played.Advance(2);
  played.Ready(job.spares.at(0).report.id, 3);
  played.slots.Add("e");
  RequestReplacement(job, NodeName("z"), "drained");
  played.Advance(4);
  ASSERT_EQ(job.leaving.size(), 1U);
  EXPECT_EQ(job.leaving[0].slot.node, NodeName("z"));
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(job.spares[0].slot.node, NodeName("e"));
  EXPECT_EQ(job.generation, Generation(1));
}

TEST(PlannedChangeTest, NewcomerThatFailsGivesTheSeatBack) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  const TrainerId old = job.leaving[0].report.id;
  played.End(played.Id(2), 22);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.state, JobState::kRecovering) << "whoever has left the old one needs the next";
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_EQ(played.Id(2), old);
  EXPECT_TRUE(job.leaving.empty());
  EXPECT_FALSE(MembershipOf(job, job.ranks[2]).planned);
  EXPECT_EQ(MembershipOf(job, job.ranks[2]).rank, Rank(2));
  played.TrainAll(23);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.recovery.vacate.size(), 1U) << "the node is still to be left";
}

TEST(PlannedChangeTest, NewcomerThatHasTheStateKeepsTheSeat) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  played.slots.Add("f");
  played.Train(played.Id(2), 22, 30);
  played.End(played.Id(0), 22.5);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "fbed");
  ASSERT_EQ(job.leaving.size(), 1U);
  EXPECT_TRUE(StopGrace(job, job.leaving[0]).has_value());
}

TEST(PlannedChangeTest, MemberThatFailsIsReplacedByTheNewcomerThatWasToMove) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  const TrainerId newcomer = played.Id(2);
  played.End(played.Id(0), 22);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ebcd") << "rank 2 stays, its newcomer stands by and takes rank 0";
  EXPECT_EQ(played.Id(0), newcomer);
}

TEST(PlannedChangeTest, NewcomerStaysWhenNobodyKnowsWhetherItAloneHasTrainedOn) {
  MemberJob played(MemberRequest(2));
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  ASSERT_EQ(played.Nodes(), "eb");
  const TrainerId old = job.leaving.at(0).report.id;
  played.slots.Add("f");
  played.End(played.Id(1), 22);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ea") << "whoever is further gives its state to the other";
  EXPECT_EQ(played.Id(1), old);
  EXPECT_TRUE(job.leaving.empty());
}

TEST(PlannedChangeTest, StateThatIsLostWhileTheyWaitForASlotIsNotBegunAnew) {
  MemberJob played(MemberRequest(3));
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  ASSERT_EQ(played.Nodes(), "ebc");
  job.ranks[1].lost = job.ranks[2].lost = "its node burns";
  played.Advance(22);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.generation, Generation(2)) << "there is no slot for the third";
  SetUnreachableNodes(job, {NodeName("a")}, At(23));
  played.slots.Add("f");
  played.slots.Add("g");
  played.Advance(23);
  EXPECT_EQ(job.state, JobState::kStopping);
}

TEST(PlannedChangeTest, OldHolderThatFailsLeavesTheSeatToTheNewcomer) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  const TrainerId old = job.leaving[0].report.id;
  played.End(old, 22);
  EXPECT_EQ(job.generation, Generation(2));
  played.Wait(played.Id(0), 22.5);
  played.Advance(22.8);
  EXPECT_EQ(job.generation, Generation(3)) << "the members of the old one have lost a peer";
  EXPECT_EQ(played.Nodes(), "abed");
}

TEST(PlannedChangeTest, ChangeThatDoesNotComeAboutIsCalledOffAndCounts) {
  MemberJob played = MovingJob();
  Job& job = played.job;
  played.Advance(22);
  played.Advance(50);
  EXPECT_EQ(job.generation, Generation(2));
  played.Advance(52);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_EQ(job.recovery.failures.size(), 1U);
  played.TrainAll(53);
  EXPECT_EQ(job.spares.size(), 1U) << "the newcomer stands by";
  played.Advance(62);
  EXPECT_EQ(job.generation, Generation(3)) << "not at once";
  played.Advance(63);
  EXPECT_EQ(job.generation, Generation(4));
}

TEST(PlannedChangeTest, WaitsForASaveToEnd) {
  JobRequest request = MemberRequest(2);
  request.checkpoints.directory = "/ckpt";
  MemberJob played(request);
  Job& job = played.job;
  played.slots.Add("e");
  TrainerReport report = played.Last(played.Id(0));
  report.saves = {Reported(20, SaveState::kWriting)};
  played.Tell(report, 5);
  RequestReplacement(job, NodeName("b"), "drained");
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  EXPECT_EQ(job.generation, Generation(1));
  report.saves = {Reported(20, SaveState::kFailed)};
  played.Tell(report, 22);
  EXPECT_EQ(job.generation, Generation(2));
}

TEST(PlannedChangeTest, DoesNotWaitForSavesThatBeginWhileItWaits) {
  JobRequest request = MemberRequest(2);
  request.checkpoints.directory = "/ckpt";
  MemberJob played(request);
  Job& job = played.job;
  played.slots.Add("e");
  TrainerReport report = played.Last(played.Id(0));
  report.saves = {Reported(20, SaveState::kWriting)};
  played.Tell(report, 5);
  RequestReplacement(job, NodeName("b"), "drained");
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  EXPECT_EQ(job.generation, Generation(1));
  report.saves = {Reported(20, SaveState::kWriting), Reported(40, SaveState::kWriting)};
  played.Tell(report, 22);
  EXPECT_EQ(job.generation, Generation(1));
  report.saves = {Reported(20, SaveState::kFailed), Reported(40, SaveState::kWriting)};
  played.Tell(report, 23);
  EXPECT_EQ(job.generation, Generation(2)) << "saves may follow one another without a pause";
}

TEST(PlannedChangeTest, OrderOfTheGenerationBeforeGoesOnInTheNext) {
  JobRequest request = MemberRequest(2);
  request.checkpoints.directory = "/ckpt";
  MemberJob played(request);
  Job& job = played.job;
  OrderSave(job, /*at_once=*/false, "asked for by a user", At(4));
  TrainerReport report = played.Last(played.Id(0));
  report.saves = {Reported(20, SaveState::kDurable, 1)};
  played.Tell(report, 4.5);
  played.slots.Add("e");
  played.End(played.Id(1), 5);
  EXPECT_EQ(job.checkpoints.order->number, 2);
  EXPECT_EQ(job.checkpoints.order->generation, Generation(2));
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kPending);
  EXPECT_TRUE(job.checkpoints.saves.empty());
  played.Tell(report, 5.5);
  EXPECT_TRUE(job.checkpoints.saves.empty()) << "a save of the generation before";
  EXPECT_FALSE(job.checkpoints.settlement.has_value());
  played.TrainAll(6);
  ASSERT_TRUE(job.checkpoints.settlement.has_value());
  EXPECT_EQ(job.checkpoints.settlement->up_to, Generation(1));
  report = played.Last(played.Id(0));
  report.saves = {Reported(30, SaveState::kDurable, 2)};
  report.saves[0].generation = Generation(2);
  played.Tell(report, 7);
  ASSERT_EQ(job.checkpoints.saves.size(), 1U);
  EXPECT_EQ(job.checkpoints.saves[0].step, 30);
}

TEST(PlannedChangeTest, SomebodyStaysWhoGivesTheStateToTheOthers) {
  MemberJob played(MemberRequest(2));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  RequestReplacement(job, NodeName("a"), "drained");
  RequestReplacement(job, NodeName("b"), "drained");
  played.Advance(20);
  ASSERT_EQ(job.spares.size(), 2U);
  const TrainerId first = job.spares[0].report.id;
  const TrainerId second = job.spares[1].report.id;
  played.Ready(first, 21);
  played.Ready(second, 21);
  played.Advance(40);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(job.ranks[1].slot.node, NodeName("b"));
  played.TrainAll(41, 30);
  played.Advance(60);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ef");
}

TEST(PlannedChangeTest, RankWhoseStateAnotherOneHasHandsNothingOver) {
  MemberJob played = MovingJob();
  EXPECT_EQ(MembershipOf(played.job, played.job.leaving.at(0)).hand_over, Rank(-1));
  EXPECT_EQ(MembershipOf(played.job, played.job.leaving.at(0)).store_address, "");
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[2]).hand_over, Rank(-1));
}

TEST(PlannedChangeTest, OldHolderOnAnUnreachableNodeGivesItsStateToNobody) {
  MemberJob played(MemberRequest(2));
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(job.spares[0].report.id, 21);
  ASSERT_EQ(played.Nodes(), "eb");
  SetUnreachableNodes(job, {NodeName("a")}, At(22));
  played.slots.Add("f");
  played.End(job.ranks[1].report.id, 23);
  EXPECT_EQ(job.state, JobState::kStopping) << "a generation without any state would start over";
}

}  // namespace
}  // namespace paceline
