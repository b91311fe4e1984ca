// What is left of the state of a sharded model when ranks are lost: as seen by the rendezvous of
// the trainers (worker/trainer/core/sharded_rendezvous.h). Jobs as in sharded_recovery_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Replicas make steps by themselves, and average their parameters now and then.
MemberJob JobWithMeans(int replicas, int shards, int spares = 0) {
  JobRequest request = ShardedRequest(replicas, shards, spares);
  request.strategy.has_ladder = request.strategy.one_level = true;
  request.strategy.ladder = {{4, LadderScope::kAll, 0}};
  MemberJob played(request);
  played.job.plan.ladder = request.strategy.ladder;
  for (int i = 0; i < spares; ++i) played.slots.Add(absl::StrCat("s", i));
  played.Advance(5);
  const std::vector<RankState> started = played.job.spares;
  for (const RankState& spare : started) played.Ready(spare.report.id, 5);
  return played;
}

// The replicas of the first start of which all ranks are still there, lost ones not counted.
std::set<int> WholeReplicas(const Job& job, const std::vector<int>& lost) {
  const int shards = job.request.shards;
  std::vector<int> parts(static_cast<size_t>(job.request.ranks / shards));
  const auto add = [&](const RankState& trainer) {
    const int seat = FirstSeat(job, trainer);
    if (seat != -1) ++parts[static_cast<size_t>(seat / shards)];
  };
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (std::count(lost.begin(), lost.end(), static_cast<int>(r)) == 0) add(job.ranks[r]);
  }
  for (const RankState& spare : job.spares) add(spare);
  std::set<int> whole;
  for (size_t replica = 0; replica < parts.size(); ++replica) {
    if (parts[replica] == shards) whole.insert(static_cast<int>(replica));
  }
  return whole;
}

// Whether some replica has the parts of one that was there at first, each in its position.
bool HasOneState(const Job& job) {
  const size_t shards = static_cast<size_t>(job.request.shards);
  for (size_t first = 0; first < job.ranks.size(); first += shards) {
    const int source = FirstSeat(job, job.ranks[first]);
    bool is_one = source != -1 && source % job.request.shards == 0;
    for (size_t position = 0; position < shards; ++position) {
      const int seat = FirstSeat(job, job.ranks[first + position]);
      is_one = is_one && seat == source + static_cast<int>(position);
    }
    if (is_one) return true;
  }
  return false;
}

// Nobody has trained since the first start.
void LoseAndExpect(MemberJob& played, const std::vector<int>& lost, double at) {
  const Generation next(played.job.generation.value() + 1);
  const bool is_left = !WholeReplicas(played.job, lost).empty();
  LoseRanks(played, lost, at);
  ASSERT_EQ(played.job.generation == next, is_left) << played.job.reason;
  if (is_left) {
    ASSERT_TRUE(HasOneState(played.job)) << played.job.reason;
  }
}

TEST(ShardedStateLossTest, WithMeansAWholeReplicaIsNeededAndKept) {
  for (const auto& [replicas, shards] : std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {2, 3}}) {
    for (int spares = 0; spares <= 1; ++spares) {
      MemberJob whole = JobWithMeans(replicas, shards, spares);
      whole.slots.Add("f0");
      const int ranks = replicas * shards;
      for (unsigned first = 1; first < 1U << ranks; ++first) {
        MemberJob played = whole;
        LoseAndExpect(played, RanksIn(first, ranks), 10);
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "first loss " << first;
        if (played.job.generation != Generation(2)) continue;
        const int left = static_cast<int>(played.job.ranks.size());
        for (unsigned second = 1; second < 1U << left; ++second) {
          MemberJob again = played;
          LoseAndExpect(again, RanksIn(second, left), 11);
          ASSERT_FALSE(testing::Test::HasFatalFailure())
              << replicas << " x " << shards << ", " << spares << " spares: " << first << ", "
              << second;
        }
      }
    }
  }
}

// The batch can only be divided among 6 or 2 ranks.
TEST(ShardedStateLossTest, WithMeansAReplicaThatStandsByTakesTheSeatsOfATornOne) {
  MemberJob played = JobWithMeans(3, 2);
  played.job.request.recovery.rule = BatchRule::kKeepGlobal;
  played.job.request.recovery.batch = {1, 1};
  LoseRanks(played, {5}, 10);
  ASSERT_EQ(played.Nodes(), "ab") << played.job.reason;
  LoseRanks(played, {0}, 11);
  EXPECT_EQ(played.Nodes(), "cd") << played.job.reason;
}

TEST(ShardedStateLossTest, TellsWhichReplicasAreTorn) {
  MemberJob played = JobWithMeans(4, 2);
  Job& job = played.job;
  job.ranks[0].lost = job.ranks[3].lost = "gone";
  EXPECT_EQ(WhyStateIsLost(job), "");
  job.plan.ladder = {{2, LadderScope::kSize, 2}, {4, LadderScope::kAll, 0}};
  EXPECT_EQ(WhyStateIsLost(job),
            "each of replicas 0 to 1 has lost a part of its parameters, which differ from the "
            "others'");
  job.ranks[2].lost = "gone";
  EXPECT_EQ(WhyStateIsLost(job), "no rank is left with the state of position 0 of replicas 0 to 1");
}

TEST(ShardedStateLossTest, WithMeansAWholeReplicaStaysWhereItIs) {
  MemberJob played = JobWithMeans(3, 2);
  EXPECT_EQ(WithoutLastHolders(played.job, {0, 1, 2, 3, 4, 5}), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(WithoutLastHolders(played.job, {0, 2, 5}), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(WithoutLastHolders(played.job, {0, 3}), (std::vector<size_t>{0, 3}));
}

// After any planned change each group has a replica all of whose parts are there: of ranks that
// have stayed, or that hand theirs over; and only those that are alone in their groups do so.
TEST(ShardedStateLossTest, NoPartIsLeftBehindWhenRanksMove) {
  constexpr int kShards = 2;
  for (const int replicas : {1, 2, 3}) {
    for (const int size : {0, 1, 2}) {  // Of the lowest level's groups; 0: ddp.
      if (size > 0 && replicas % size != 0) continue;
      for (unsigned moved = 1; moved < 1U << (replicas * kShards); ++moved) {
        JobRequest request = ShardedRequest(replicas, kShards);
        request.strategy.has_ladder = size > 0;
        if (size > 0) {
          request.strategy.ladder = {{2, LadderScope::kSize, size}, {4, LadderScope::kAll, 0}};
        }
        MemberJob played(request);
        Job& job = played.job;
        job.plan.ladder = request.strategy.ladder;
        const std::vector<size_t> lone = LoneMembers(job);
        for (const int rank : RanksIn(moved, replicas * kShards)) {
          played.slots.Add(absl::StrCat("n", rank));
          RequestReplacement(job, job.ranks[static_cast<size_t>(rank)].slot.node, "drained");
        }
        played.Advance(20);
        const std::vector<RankState> spares = job.spares;
        for (const RankState& spare : spares) played.Ready(spare.report.id, 21);
        std::set<int> lost;  // Seats.
        for (const RankState& leaver : job.leaving) {
          const auto rank = static_cast<size_t>(leaver.seat);
          const bool is_lone = std::count(lone.begin(), lone.end(), rank) > 0;
          EXPECT_EQ(MembershipOf(job, leaver).hand_over != Rank(-1), is_lone) << leaver.seat;
          if (!is_lone) lost.insert(leaver.seat);
        }
        const std::vector<int> groups = GroupsOfSeats(job);
        std::set<int> whole;  // Groups of position 0.
        for (int replica = 0; replica < replicas; ++replica) {
          if (lost.count(2 * replica) + lost.count(2 * replica + 1) > 0) continue;
          whole.insert(groups[static_cast<size_t>(2 * replica)]);
        }
        if (size == 0) {  // A rank of each position will do.
          for (int position = 0; position < kShards; ++position) {
            EXPECT_LT(std::count_if(lost.begin(), lost.end(),
                                    [&](int seat) { return seat % kShards == position; }),
                      replicas)
                << moved;
          }
          continue;
        }
        for (int replica = 0; replica < replicas; ++replica) {
          EXPECT_EQ(whole.count(groups[static_cast<size_t>(2 * replica)]), 1U) << moved;
        }
      }
    }
  }
}

// With ddp a rank of each position would do.
TEST(ShardedStateLossTest, PartsOfTwoReplicasMakeNoState) {
  MemberJob played = JobWithMeans(2, 2);
  MemberJob alike(ShardedRequest(2, 2));
  for (MemberJob* one : {&played, &alike}) one->slots.Add("e");
  for (MemberJob* one : {&played, &alike}) one->slots.Add("f");
  LoseRanks(alike, {0, 3}, 10);
  EXPECT_EQ(alike.job.state, JobState::kRecovering) << alike.job.reason;
  LoseRanks(played, {0, 3}, 10);
  EXPECT_EQ(played.job.state, JobState::kStopping);
  EXPECT_THAT(played.job.reason, HasSubstr("each of replicas 0 to 1 has lost a part"));
}

// Says that it has given up its state, to get another one in the present generation.
void DropState(MemberJob& played, const TrainerId& id, double at) {
  TrainerReport report = played.Last(id);
  report.membership.generation = Generation(0);
  report.membership.step = 0;
  report.membership.waiting = true;
  report.membership.left = played.job.generation;
  played.Tell(report, at);
}

TEST(ShardedStateLossTest, WhoHasGivenUpItsStateHoldsNone) {
  MemberJob played(ShardedRequest(2, 2));
  played.slots.Add("e");
  LoseRanks(played, {0}, 10);
  ASSERT_EQ(played.Nodes(), "ebcd");
  MemberJob kept = played;
  DropState(played, played.Id(3), 11);
  for (MemberJob* one : {&kept, &played}) LoseRanks(*one, {1}, 12);
  EXPECT_EQ(kept.job.generation, Generation(3)) << kept.job.reason;
  EXPECT_EQ(played.job.state, JobState::kStopping) << played.job.reason;
  EXPECT_THAT(played.job.reason, HasSubstr("position 1"));
}

TEST(ShardedStateLossTest, IsFoundWhenNobodyIsLost) {
  MemberJob played(ShardedRequest(2, 2));
  played.slots.Add("e");
  LoseRanks(played, {0}, 10);
  ASSERT_EQ(played.Nodes(), "ebcd");
  for (const int rank : {1, 3}) DropState(played, played.Id(rank), 11);
  played.WaitAfter(Generation(2), played.Id(2), 11, "a peer is gone");
  played.Advance(12);
  EXPECT_EQ(played.job.state, JobState::kStopping) << played.job.reason;
  EXPECT_THAT(played.job.reason, HasSubstr("position 1"));
}

// The rendezvous came to its end, so what stood by is behind.
TEST(ShardedStateLossTest, WhoStandsByIsBehindWhenSomebodyHasTrainedOn) {
  MemberJob played(ShardedRequest(2, 2));
  LoseRanks(played, {3}, 10);
  ASSERT_EQ(played.Nodes(), "ab");
  MemberJob before = played;
  played.Train(played.Id(1), 11);
  for (MemberJob* one : {&before, &played}) LoseRanks(*one, {0}, 12);
  EXPECT_EQ(before.Nodes(), "cb") << before.job.reason;
  EXPECT_EQ(played.job.state, JobState::kStopping) << played.job.reason;
}

// Nor is it behind if it was a member there, and has only not said yet that it trains.
TEST(ShardedStateLossTest, WhoWasAMemberThereIsNotBehind) {
  MemberJob played(ShardedRequest(2, 2));
  played.slots.Add("e");
  LoseRanks(played, {3}, 10);
  ASSERT_EQ(played.Nodes(), "abce");
  played.Train(played.Id(1), 11);
  LoseRanks(played, {0}, 12);
  EXPECT_EQ(played.job.generation, Generation(3)) << played.job.reason;
}

}  // namespace
}  // namespace paceline
