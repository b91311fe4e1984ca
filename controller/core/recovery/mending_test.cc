// Replicas of a sharded model that are stretched, and brought together again.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "controller/core/recovery/planned_change.h"
#include "controller/core/recovery/planned_replicas.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

Slot On(const std::string& node, int number = 0) { return {NodeName(node), number}; }

// Two replicas of two ranks, on nodes a and b. Rank 1 was lost; its successor is on x, and the
// change was done at 11 s.
MemberJob StretchedJob(int spares = 0) {
  MemberJob played(ShardedRequest(2, 2, spares), {On("a"), On("a", 1), On("b"), On("b", 1)});
  played.slots.Add("x");
  LoseRanks(played, {1}, 10);
  EXPECT_EQ(played.Nodes(), "axbb") << played.job.reason;
  played.TrainAll(11, 20);
  return played;
}

constexpr double kDue = 11 + 60;

TEST(MendingTest, RankComesBackWhenASlotInItsDomainIsFree) {
  MemberJob played = StretchedJob();
  Job& job = played.job;
  played.slots.Add("y");
  played.Advance(kDue);
  EXPECT_TRUE(job.spares.empty()) << "y is no better than x";
  played.slots.Add("a", 5);
  played.Advance(kDue + 9);
  EXPECT_TRUE(job.spares.empty()) << "it is looked at every 10 s";
  played.Advance(kDue + 10);
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(job.spares[0].slot.node, NodeName("a"));
  played.Ready(job.spares[0].report.id, kDue + 12);
  EXPECT_EQ(played.Nodes(), "aabb");
  EXPECT_TRUE(MembershipOf(job, job.ranks[1]).planned);
  EXPECT_EQ(job.recovery.history.back().reason, "rank 1 moves from x to a (back to replica 0)");
  played.TrainAll(kDue + 13, 30);
  EXPECT_TRUE(FindStretched(job).empty());
}

TEST(MendingTest, NotSoonAfterAChange) {
  MemberJob played = StretchedJob();
  played.slots.Add("a", 5);
  played.Advance(kDue - 1);
  EXPECT_TRUE(played.job.spares.empty());
  EXPECT_LE(NextDeadline(played.job), At(kDue).steady);
  played.Advance(kDue);
  EXPECT_EQ(played.job.spares.size(), 1U);
}

TEST(MendingTest, ASpareThatIsReadyInTheDomainIsTaken) {
  MemberJob played = StretchedJob(/*spares=*/1);
  Job& job = played.job;
  played.slots.Add("a", 5);
  played.Advance(20);
  ASSERT_EQ(job.spares.size(), 1U);
  ASSERT_EQ(job.spares[0].slot.node, NodeName("a"));
  played.Ready(job.spares[0].report.id, 21);
  EXPECT_EQ(played.Nodes(), "axbb");
  played.Advance(kDue);
  played.Advance(kDue + 1);
  EXPECT_EQ(played.Nodes(), "aabb") << job.reason;
}

// No trainer is started or released then, so nothing else has the job stored.
TEST(MendingTest, WhatIsToBeMendedIsStored) {
  MemberJob played = StretchedJob(/*spares=*/1);
  Job& job = played.job;
  played.slots.Add("a", 5);
  played.Advance(20);
  ASSERT_EQ(job.spares.size(), 1U);
  played.Ready(job.spares[0].report.id, 21);
  ASSERT_TRUE(job.recovery.mending.empty());
  EXPECT_EQ(KeepSpares(job, played.slots.Find(), At(kDue)), JobChange::kState);
  EXPECT_EQ(job.recovery.mending, std::set<int>{0});
  EXPECT_EQ(KeepSpares(job, played.slots.Find(), At(kDue + 10)), JobChange::kNone) << "the same";
  ASSERT_EQ(RequestReplacement(job, NodeName("b"), "drained"), JobChange::kState);
  EXPECT_EQ(KeepSpares(job, played.slots.Find(), At(kDue + 20)), JobChange::kState);
  EXPECT_TRUE(job.recovery.mending.empty()) << "other ranks have to move first";
  EXPECT_EQ(job.spares.size(), 1U);
}

TEST(MendingTest, NotWhileOtherRanksHaveToMove) {
  MemberJob played = StretchedJob();
  played.slots.Add("a", 5);
  RequestReplacement(played.job, NodeName("x"), "drained");
  played.Advance(30);
  ASSERT_EQ(played.job.spares.size(), 1U) << "the drain brings it back";
  played.Ready(played.job.spares[0].report.id, 31);
  EXPECT_EQ(played.Nodes(), "aabb");
}

TEST(MendingTest, WhatWasStretchedAtTheStartHasNoDomain) {
  MemberJob played(ShardedRequest(1, 2),
                   {{NodeName("a"), 0, "r1", ""}, {NodeName("b"), 0, "r2", ""}});
  EXPECT_TRUE(FindStretched(played.job).empty());
}

// Whichever ranks have gone to x, all come back, to where most of the replica is, once there is
// room for all of them; and none before.
TEST(MendingTest, AllRanksOfAReplicaComeBackTogether) {
  constexpr int kShards = 3;
  for (unsigned lost = 1; lost < (1U << kShards) - 1; ++lost) {
    const std::vector<int> ranks = RanksIn(lost, kShards);
    for (size_t room = 0; room <= ranks.size(); ++room) {
      MemberJob played(ShardedRequest(2, kShards),
                       {On("a"), On("a", 1), On("a", 2), On("b"), On("b", 1), On("b", 2)});
      Job& job = played.job;
      for (size_t i = 0; i < ranks.size(); ++i) played.slots.Add("x", static_cast<int>(i));
      LoseRanks(played, ranks, 10);
      played.TrainAll(11, 20);
      const std::vector<StretchedReplica> stretched = FindStretched(job);
      ASSERT_EQ(stretched.size(), 1U);
      const bool most_are_gone = 2 * ranks.size() > kShards;
      const size_t outside = stretched[0].outside.size();
      EXPECT_EQ(outside, most_are_gone ? kShards - ranks.size() : ranks.size());
      for (size_t i = 0; i < room; ++i) {
        played.slots.Add(most_are_gone ? "x" : "a", 10 + static_cast<int>(i));
      }
      played.Advance(kDue);
      EXPECT_EQ(job.spares.size(), room >= outside ? outside : 0U) << lost << " " << room;
      const std::vector<RankState> spares = job.spares;
      for (const RankState& spare : spares) played.Ready(spare.report.id, kDue + 1);
      EXPECT_EQ(FindStretched(job).empty(), room >= outside) << lost << " " << room;
    }
  }
}

}  // namespace
}  // namespace paceline
