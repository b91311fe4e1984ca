// Ranks that move, and whose states nobody else has (planned_change.h).
#include <gtest/gtest.h>

#include "controller/core/recovery/membership.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

TEST(HandOverTest, LoneRankHandsItsStateOver) {
  MemberJob played(MemberRequest(1));
  Job& job = played.job;
  played.slots.Add("e");
  ASSERT_EQ(RequestReplacement(job, NodeName("a"), "drained"), JobChange::kState);
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  ASSERT_EQ(played.Nodes(), "e");
  const Membership leaver = MembershipOf(job, job.leaving.at(0));
  EXPECT_EQ(leaver.rank, Rank(-1));
  EXPECT_EQ(leaver.hand_over, Rank(0));
  EXPECT_NE(leaver.store_address, "") << "where it meets the newcomer";
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).hand_over, Rank(0));
  EXPECT_EQ(StopGrace(job, job.leaving[0]), std::nullopt) << "the newcomer has no state yet";
  played.TrainAll(22, 30);
  EXPECT_TRUE(StopGrace(job, job.leaving.at(0)).has_value());
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).hand_over, Rank(-1));
}

TEST(HandOverTest, LoneRankComesBackIfTheNewcomerIsLost) {
  MemberJob played(MemberRequest(1));
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(job.spares.at(0).report.id, 21);
  played.End(played.Id(0), 22);
  EXPECT_EQ(played.Nodes(), "a") << job.reason;
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).hand_over, Rank(-1));
}

// A job of one rank, which is handing its state over to a trainer on node e since 21 s.
MemberJob HandingOverJob() {
  MemberJob played(MemberRequest(1));
  played.slots.Add("e");
  RequestReplacement(played.job, NodeName("a"), "drained");
  played.Advance(20);
  played.Ready(played.job.spares.at(0).report.id, 21);
  EXPECT_EQ(played.Nodes(), "e");
  return played;
}

TEST(HandOverTest, LoneRankComesBackIfTheNewcomerDoesNotGetItsState) {
  MemberJob played = HandingOverJob();
  Job& job = played.job;
  const TrainerId newcomer = played.Id(0);
  played.WaitAfter(Generation(2), newcomer, 22, "receiving from a rank: connection reset");
  played.Advance(23);
  EXPECT_EQ(played.Nodes(), "a") << job.reason;
  EXPECT_TRUE(job.spares.empty()) << "who may have got a part of the state stands by for nobody";
  EXPECT_TRUE(StopGrace(job, *FindTrainer(job, newcomer)).has_value());
  EXPECT_EQ(MembershipOf(job, *FindTrainer(job, newcomer)).hand_over, Rank(-1));
}

TEST(HandOverTest, LoneRankComesBackIfTheHandOverTakesTooLong) {
  MemberJob played = HandingOverJob();
  played.Advance(22);
  played.Advance(22 + 30);
  EXPECT_EQ(played.Nodes(), "a") << played.job.reason;
}

TEST(HandOverTest, LoneRankDoesNotComeBackWhileTheNewcomerMayTrainUnheard) {
  MemberJob played = HandingOverJob();
  SetUnreachableNodes(played.job, {NodeName("e")}, At(22));
  played.Advance(22);
  played.Advance(22 + 30);
  EXPECT_EQ(played.Nodes(), "e") << played.job.reason;
  EXPECT_EQ(played.job.leaving.size(), 1U);
  EXPECT_EQ(StopGrace(played.job, played.job.leaving.at(0)), std::nullopt);
  SetUnreachableNodes(played.job, {}, At(60));
  played.Advance(60);
  EXPECT_EQ(played.Nodes(), "a") << played.job.reason;
}

// It would begin the training anew.
TEST(HandOverTest, NewcomerWaitsForTheStateAlsoIfWhoHasItIsGone) {
  MemberJob played = HandingOverJob();
  played.End(played.job.leaving.at(0).report.id, 22);
  EXPECT_TRUE(played.job.leaving.empty());
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[0]).hand_over, Rank(0));
}

TEST(HandOverTest, TrainersOfAnEarlierReleaseAreNotAskedToHandOver) {
  MemberJob played(MemberRequest(1));
  Job& job = played.job;
  TrainerReport report = played.Last(played.Id(0));
  report.membership.can_hand_over = false;
  played.Tell(report, 10);
  EXPECT_TRUE(WhyRanksCannotMove(job).has_value());
  report.membership.can_hand_over = true;
  played.Tell(report, 11);
  EXPECT_EQ(WhyRanksCannotMove(job), std::nullopt);
  // One that stands by would take the rank, and begin the training anew.
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  report = played.Last(job.spares.at(0).report.id);
  report.state = TrainerState::kReady;
  report.store_address = "e:1";
  played.Tell(report, 21);
  EXPECT_EQ(played.Nodes(), "a");
  EXPECT_TRUE(WhyRanksCannotMove(job).has_value());
}

TEST(HandOverTest, StateIsLostIfWhoHandsItOverIsLost) {
  MemberJob played(MemberRequest(1));
  Job& job = played.job;
  played.slots.Add("e");
  RequestReplacement(job, NodeName("a"), "drained");
  played.Advance(20);
  const TrainerId leaver = played.Id(0);
  played.Ready(job.spares.at(0).report.id, 21);
  played.End(leaver, 22);
  played.WaitAfter(Generation(2), played.Id(0), 23, "a peer is gone");
  played.Advance(24);
  EXPECT_EQ(job.state, JobState::kStopping) << job.reason;
}

TEST(HandOverTest, RanksOfSlipstreamDoNotHandTheirStatesOver) {
  MemberJob played(MemberRequest(1));
  played.job.plan.slipstream = SlipstreamChoice();
  EXPECT_TRUE(WhyRanksCannotMove(played.job).has_value());
}

}  // namespace
}  // namespace paceline
