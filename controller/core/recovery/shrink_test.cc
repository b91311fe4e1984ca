// Jobs that go on with fewer ranks, and grow again.
#include <gtest/gtest.h>

#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

JobRequest ShrinkingRequest(int min_ranks, BatchRule rule) {
  JobRequest request = MemberRequest();
  request.recovery.min_ranks = min_ranks;
  request.recovery.rule = rule;
  return request;
}

TEST(ShrinkTest, JobGoesOnWithoutTheLostRankAtOnce) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "acd");
  EXPECT_EQ(FilledSeats(job), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).rank, Rank(1)) << "ranks follow the filled seats";
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).world_size, 3);
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).batch, (RankBatch{32, 1}));
  EXPECT_EQ(job.recovery.history.back().ranks_before, 4);
  EXPECT_EQ(job.recovery.history.back().ranks_after, 3);
}

TEST(ShrinkTest, GlobalBatchIsKeptByFewerRanksWithMorePasses) {
  MemberJob played(ShrinkingRequest(2, BatchRule::kKeepGlobal));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  EXPECT_EQ(played.Nodes(), "ac") << "128 samples cannot be shared by 3";
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).batch, (RankBatch{32, 2}));
  ASSERT_EQ(job.spares.size(), 1U) << "the fourth stands by";
  EXPECT_EQ(job.spares[0].slot.node, NodeName("d"));
}

TEST(ShrinkTest, WhoHasTheStateDoesNotStandByForThoseWithout) {
  MemberJob played(ShrinkingRequest(2, BatchRule::kKeepGlobal));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  played.End(played.Id(0), 5);
  played.End(played.Id(1), 5.1);
  ASSERT_EQ(played.Nodes(), "efcd");
  played.End(played.Id(3), 5.2);
  EXPECT_EQ(played.Nodes(), "ec");
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(job.spares[0].slot.node, NodeName("f"));
}

TEST(ShrinkTest, WhoStandsByWhileOthersTrainHasAnOldState) {
  MemberJob played(ShrinkingRequest(2, BatchRule::kKeepGlobal));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_TRUE(HasState(job, job.spares[0])) << "as long as nobody has trained on";
  played.TrainAll(6, 20);
  EXPECT_FALSE(HasState(job, job.spares[0]));
  EXPECT_TRUE(HasState(job, job.ranks[0]));
}

TEST(ShrinkTest, NotBelowTheMinimum) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  played.TrainAll(6);
  played.End(played.Id(1), 7);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(job.state, JobState::kRecovering);
  played.slots.Add("e");
  played.Advance(8);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(played.Nodes(), "aed");
}

TEST(ShrinkTest, RatherThanToGoBackToANodeThatItAvoids) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  played.slots.AddAvoided("x");
  played.End(played.Id(1), 5);
  EXPECT_EQ(played.Nodes(), "acd");
  played.TrainAll(6);
  played.End(played.Id(1), 7);
  EXPECT_EQ(played.Nodes(), "axd") << "two are too few";
}

TEST(ShrinkTest, GrowsAgainAfterAPauseWhenThereIsASlot) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  played.TrainAll(6);
  played.slots.Add("e");
  played.Advance(15.9);
  ASSERT_EQ(job.spares.size(), 1U) << "it can start meanwhile";
  played.Ready(job.spares[0].report.id, 15.9);
  EXPECT_EQ(job.generation, Generation(2));
  played.Advance(16);
  EXPECT_EQ(job.generation, Generation(3));
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(played.Nodes(), "aecd");
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).rank, Rank(1));
  EXPECT_TRUE(MembershipOf(job, job.ranks[1]).planned);
  played.TrainAll(17);
  EXPECT_EQ(job.recovery.history.back().ranks_after, 4);
  EXPECT_EQ(MembershipOf(job, job.ranks[1]).batch, (RankBatch{32, 1}));
}

TEST(ShrinkTest, GrowsOnlyToNumbersThatShareTheBatch) {
  MemberJob played(ShrinkingRequest(2, BatchRule::kKeepGlobal));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  played.TrainAll(6);
  played.Advance(100);
  EXPECT_EQ(played.Nodes(), "ac") << "with the one that stands by they were three";
  played.slots.Add("e");
  played.Advance(102);
  ASSERT_EQ(job.spares.size(), 2U);
  played.Ready(job.spares[1].report.id, 103);
  EXPECT_EQ(played.Nodes().size(), 4U);
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).batch, (RankBatch{32, 1}));
}

TEST(ShrinkTest, GrowthThatFailsLeavesTheJobAsItWas) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  Job& job = played.job;
  played.End(played.Id(1), 5);
  played.TrainAll(6);
  played.slots.Add("e");
  played.Advance(16);
  played.Ready(job.spares.at(0).report.id, 17);
  ASSERT_EQ(job.generation, Generation(3));
  played.End(played.Id(1), 18);
  EXPECT_EQ(job.generation, Generation(4));
  EXPECT_EQ(played.Nodes(), "acd");
}

TEST(ShrinkTest, LostRankWhoseEndIsNotKnownMayReturnFirst) {
  MemberJob played(ShrinkingRequest(3, BatchRule::kKeepRank));
  Job& job = played.job;
  EndTrainersOn(job, NodeName("b"), "node b is drained now", At(5));
  played.Advance(5);
  EXPECT_EQ(job.generation, Generation(1));
  EXPECT_EQ(StopGrace(job, job.ranks[1]), absl::ZeroDuration());
  played.slots.Add("e");
  played.End(played.Id(1), 5.1, FailureKind::kNone, "");
  EXPECT_EQ(played.Nodes(), "aecd");
}

}  // namespace
}  // namespace paceline
