#include <gtest/gtest.h>

#include "controller/core/job/trainer_finder.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

JobRequest ShrinkingRequest() {
  JobRequest request = MemberRequest();
  request.recovery.min_ranks = 3;
  request.recovery.rule = BatchRule::kKeepRank;
  return request;
}

// The reader of the trainer that has the rank.
LogReader ReaderOf(const Job& job, int rank) {
  const RankState& member = job.ranks[static_cast<size_t>(rank)];
  return {Rank(rank), member.report.id, member.seat};
}

TEST(LogWriterTest, WhoTakesTheSeatOfALostRankWritesItsLog) {
  MemberJob played;
  const LogReader reader = ReaderOf(played.job, 1);
  EXPECT_EQ(WriterFor(played.job, reader)->report.id, reader.trainer);
  EXPECT_TRUE(MayWrite(played.job, reader));
  played.slots.Add("e");
  played.End(reader.trainer, 5);
  ASSERT_EQ(played.Nodes(), "aecd");
  EXPECT_EQ(WriterFor(played.job, reader)->slot.node, NodeName("e"));
  EXPECT_FALSE(MayWrite(played.job, reader));
}

TEST(LogWriterTest, ReadersOfTheOthersStayWithTheirTrainersWhenTheJobShrinks) {
  MemberJob played(ShrinkingRequest());
  Job& job = played.job;
  const LogReader lost = ReaderOf(job, 1);
  const LogReader next = ReaderOf(job, 2);
  played.End(lost.trainer, 5);
  ASSERT_EQ(played.Nodes(), "acd");
  EXPECT_EQ(WriterFor(job, lost), nullptr) << "its rank 1 is the third seat's";
  EXPECT_EQ(WriterFor(job, next)->report.id, next.trainer);
  EXPECT_TRUE(MayWrite(job, next));
  EXPECT_EQ(ReaderOf(job, 1).seat, 2);
}

TEST(LogWriterTest, WhoIsRelievedWritesUntilItEnds) {
  MemberJob played;
  Job& job = played.job;
  const LogReader reader = ReaderOf(job, 2);
  played.slots.Add("e");
  RequestReplacement(job, NodeName("c"), "drained");
  played.Advance(20);
  ASSERT_EQ(job.spares.size(), 1U);
  played.Ready(job.spares[0].report.id, 21);
  ASSERT_EQ(played.Nodes(), "abed");
  EXPECT_EQ(WriterFor(job, reader)->slot.node, NodeName("e"));
  EXPECT_TRUE(MayWrite(job, reader)) << "it trains on until the rendezvous is done";
  played.TrainAll(22, 30);
  EXPECT_TRUE(MayWrite(job, reader));
  played.End(reader.trainer, 23, FailureKind::kNone, "");
  EXPECT_FALSE(MayWrite(job, reader));
}

TEST(LogWriterTest, WhoWasGivenUpIsNotWaitedFor) {
  MemberJob played;
  Job& job = played.job;
  const LogReader reader = ReaderOf(job, 1);
  played.slots.Add("e");
  EndTrainersOn(job, NodeName("b"), "replaced by ann", At(5));
  played.Advance(5);
  ASSERT_EQ(played.Nodes(), "aecd");
  ASSERT_EQ(job.leaving.size(), 1U) << "it is not known to have ended";
  EXPECT_FALSE(MayWrite(job, reader));
}

TEST(LogWriterTest, NewStartGivesTheRankToAnotherSeat) {
  MemberJob played(ShrinkingRequest());
  Job& job = played.job;
  played.End(played.Id(1), 5);
  const LogReader reader = ReaderOf(job, 1);
  ASSERT_EQ(reader.seat, 2);
  PlaceJob(job, {{NodeName("a"), 0}, {NodeName("b"), 0}, {NodeName("c"), 0}, {NodeName("d"), 0}},
           At(9));
  EXPECT_EQ(WriterFor(job, reader)->report.id.rank, Rank(1));
  EXPECT_FALSE(MayWrite(job, reader));
}

TEST(LogWriterTest, NobodyWritesWhileTheJobIsQueued) {
  const Job job = NewJob(MemberRequest(), 1, At(0));
  EXPECT_EQ(WriterFor(job, {Rank(1), {}, 1}), nullptr);
  EXPECT_FALSE(MayWrite(job, {Rank(1), {}, 1}));
}

}  // namespace
}  // namespace paceline
