#include "controller/core/recovery/unreachable.h"

#include <gtest/gtest.h>

#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

TEST(UnreachableTest, BeingUnreachableAloneMovesNothing) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  SetUnreachableNodes(job, {NodeName("c")}, At(5));
  played.Advance(5);
  for (int t = 6; t < 1000; t += 10) {
    for (const int rank : {0, 1, 3}) played.Train(played.Id(rank), t, t);
  }
  EXPECT_EQ(job.generation, Generation(1));
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(UnreachableTest, UnreachableNodeIsGivenUpWhenOthersHaveWaitedForIt) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.Train(played.Id(0), 5);
  SetUnreachableNodes(job, {NodeName("c")}, At(5));
  played.Advance(5);
  played.Wait(played.Id(0), 6);
  played.Advance(7.9);
  EXPECT_EQ(job.generation, Generation(1)) << "it may be back";
  EXPECT_EQ(NextDeadline(job), At(8).steady);
  const TrainerId old = played.Id(2);
  played.Advance(8);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abed");
  ASSERT_EQ(job.leaving.size(), 1U) << "its trainer may well be running";
  EXPECT_EQ(job.leaving[0].report.id, old);
  EXPECT_TRUE(HoldsSlot(job, job.leaving[0]));
  EXPECT_EQ(StopGrace(job, job.leaving[0]), absl::ZeroDuration());
  EXPECT_EQ(MembershipOf(job, job.leaving[0]).rank, Rank(-1));
  played.End(old, 20);
  EXPECT_TRUE(job.leaving.empty());
  EXPECT_EQ(job.generation, Generation(2));
}

TEST(UnreachableTest, NodeThatComesBackInTimeKeepsItsRank) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  SetUnreachableNodes(job, {NodeName("c")}, At(5));
  played.Wait(played.Id(0), 6);
  SetUnreachableNodes(job, {}, At(7));
  played.Advance(7);
  EXPECT_EQ(job.generation, Generation(2)) << "the members rendezvous again";
  EXPECT_EQ(played.Nodes(), "abcd");
}

TEST(UnreachableTest, UnreachableDoesNotCountWhileTheOtherNodesMayBeAboutToBe) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  for (const int rank : {0, 1, 3}) played.Train(played.Id(rank), 9, 20);
  SetUnreachableNodes(job, {NodeName("c")}, At(10));
  TakeLostNode(job, NodeName("c"), "its lease has run out", At(11.9));
  played.Advance(12);
  EXPECT_EQ(job.generation, Generation(1)) << "the others have not reported for 3 s";
  for (int t = 13; t < 23; ++t) {
    played.Train(played.Id(0), t, t);
    EXPECT_EQ(job.generation, Generation(1)) << "they are given time to follow";
  }
  played.Train(played.Id(0), 23, 23);
  EXPECT_EQ(played.Nodes(), "abed");
}

TEST(UnreachableTest, ADrainThatWaitsIsNotedOnceTheWorkersHadTimeToConnect) {
  MemberJob played;
  Job& job = played.job;
  RestoreUnreachable(job, At(5));
  EXPECT_EQ(NoteWaitingDrain(job, NodeName("b"), "drained", At(14.9)), JobChange::kNone);
  EXPECT_TRUE(job.recovery.waiting_drains.empty());
  EXPECT_EQ(NoteWaitingDrain(job, NodeName("b"), "drained", At(15)), JobChange::kProgress);
  EXPECT_EQ(NoteWaitingDrain(job, NodeName("b"), "drained", At(16)), JobChange::kNone);
}

TEST(UnreachableTest, UnreachableNodeInTheChangeIsGivenUp) {
  MemberJob played;
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(0), 5);
  SetUnreachableNodes(job, {NodeName("c")}, At(6));
  played.Advance(6);
  played.Advance(8);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "ebfd");
}

}  // namespace
}  // namespace paceline
