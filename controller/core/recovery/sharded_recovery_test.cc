// Jobs whose model is sharded: one rank on each of the nodes a, b, c, ..., as many of which in a
// row as there are shards make a replica. Spares are on s0, s1, ...; free slots on f0, f1, ...
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

MemberJob ShardedJob(int replicas, int shards, int spares, int slots) {
  MemberJob played(ShardedRequest(replicas, shards, spares));
  for (int i = 0; i < spares; ++i) played.slots.Add(absl::StrCat("s", i));
  played.Advance(5);
  const std::vector<RankState> started = played.job.spares;
  EXPECT_EQ(static_cast<int>(started.size()), spares);
  for (const RankState& spare : started) played.Ready(spare.report.id, 5);
  for (int i = 0; i < slots; ++i) played.slots.Add(absl::StrCat("f", i));
  return played;
}

// A first loss, and what it is up against.
struct Loss {
  int replicas;
  int shards;
  int spares;
  int slots;
  std::vector<int> ranks;

  bool Hits(int rank) const { return std::count(ranks.begin(), ranks.end(), rank) > 0; }
  bool LosesState() const {
    for (int position = 0; position < shards; ++position) {
      bool held = false;
      for (int r = position; r < replicas * shards; r += shards) held = held || !Hits(r);
      if (!held) return true;
    }
    return false;
  }
  int HolesOf(int replica) const {
    return static_cast<int>(std::count_if(ranks.begin(), ranks.end(),
                                          [&](int rank) { return rank / shards == replica; }));
  }
};

// I1: each replica is whole or empty, and ranks are in the positions of their seats. I6: no replica
// is given up that spares and slots could have completed.
void ExpectWholeReplicas(const Job& job, const Loss& loss) {
  const int lost = static_cast<int>(loss.ranks.size());
  const int there = loss.replicas * loss.shards - lost + std::min(lost, loss.spares + loss.slots);
  ASSERT_EQ(static_cast<int>(job.ranks.size()), there / loss.shards * loss.shards);
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    const int first = job.ranks[r - r % static_cast<size_t>(loss.shards)].seat;
    EXPECT_EQ(first % loss.shards, 0);
    EXPECT_EQ(job.ranks[r].seat, first + rank % loss.shards);
    EXPECT_EQ(RankOf(job, job.ranks[r]), Rank(rank));
    if (r > 0) {
      EXPECT_LT(job.ranks[r - 1].seat, job.ranks[r].seat);
    }
  }
}

std::set<int> ReplicasOf(const Job& job) {
  std::set<int> replicas;
  for (const RankState& member : job.ranks) replicas.insert(member.seat / job.request.shards);
  return replicas;
}

void ExpectFewestHoles(const Job& job, const Loss& loss) {
  const std::set<int> staying = ReplicasOf(job);
  for (int gone = 0; gone < loss.replicas; ++gone) {
    if (staying.count(gone) > 0) continue;
    for (const int replica : staying) EXPECT_LE(loss.HolesOf(replica), loss.HolesOf(gone));
  }
}

// Survivors keep their seats if their replicas stay. Others only change their position when spares
// and slots are used up, and nobody is left over that was in that position.
void ExpectPositionsKept(const Job& job, const Loss& loss) {
  const std::set<int> staying = ReplicasOf(job);
  std::set<int> seen;
  int spares = 0;
  int newcomers = 0;
  for (const RankState& member : job.ranks) {
    const int first = FirstSeat(job, member);
    if (first == -1) ++(member.report.id.generation == Generation(1) ? spares : newcomers);
    if (first != -1) seen.insert(first);
    if (first != -1 && staying.count(first / loss.shards) > 0) {
      EXPECT_EQ(member.seat, first);
    }
  }
  std::set<int> idle;
  for (const RankState& spare : job.spares) {
    const int first = FirstSeat(job, spare);
    EXPECT_EQ(spare.seat, -1);
    if (first == -1) continue;
    EXPECT_EQ(staying.count(first / loss.shards), 0U) << first;
    idle.insert(first % loss.shards);
    seen.insert(first);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(loss.replicas * loss.shards) - loss.ranks.size())
      << "all survivors are there";
  EXPECT_EQ(spares + static_cast<int>(job.spares.size()) - loss.spares,
            static_cast<int>(std::count_if(
                job.spares.begin(), job.spares.end(),
                [&](const RankState& spare) { return FirstSeat(job, spare) != -1; })));
  for (const RankState& member : job.ranks) {
    const int first = FirstSeat(job, member);
    if (first == -1 || first % loss.shards == member.seat % loss.shards) continue;
    EXPECT_EQ(spares, loss.spares);
    EXPECT_EQ(newcomers, loss.slots);
    EXPECT_EQ(idle.count(member.seat % loss.shards), 0U);
  }
}

// In each position somebody has its part of the model.
void ExpectStateHeld(const Job& job, const Loss& loss) {
  const std::vector<int> groups = GroupsOfSeats(job);
  std::set<int> held;
  for (const RankState& member : job.ranks) {
    const int first = FirstSeat(job, member);
    const bool has_state = first != -1 && first % loss.shards == member.seat % loss.shards;
    EXPECT_EQ(HasStateOfSeat(job, member, groups), has_state);
    if (has_state) held.insert(member.seat % loss.shards);
  }
  EXPECT_EQ(static_cast<int>(held.size()), loss.shards);
}

void ExpectRecovery(MemberJob played, const Loss& loss) {
  SCOPED_TRACE(absl::StrCat(loss.replicas, " x ", loss.shards, ", spares ", loss.spares, ", slots ",
                            loss.slots));
  LoseRanks(played, loss.ranks, 10);
  const Job& job = played.job;
  if (loss.LosesState()) {
    EXPECT_TRUE(job.state == JobState::kStopping || job.state == JobState::kQueued) << job.reason;
    return;
  }
  ASSERT_EQ(job.state, JobState::kRecovering) << job.reason;
  ASSERT_EQ(job.generation, Generation(2)) << job.reason;
  ExpectWholeReplicas(job, loss);
  ExpectFewestHoles(job, loss);
  ExpectPositionsKept(job, loss);
  ExpectStateHeld(job, loss);
}

TEST(ShardedRecoveryTest, AnyLossLeavesWholeReplicas) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    for (int shards = 1; shards <= 3; ++shards) {
      for (int spares = 0; spares <= 2; ++spares) {
        for (int slots = 0; slots <= 2; ++slots) {
          const MemberJob played = ShardedJob(replicas, shards, spares, slots);
          const int ranks = replicas * shards;
          for (unsigned set = 1; set < 1U << ranks; ++set) {
            ExpectRecovery(played, {replicas, shards, spares, slots, RanksIn(set, ranks)});
            ASSERT_FALSE(HasFailure()) << "set " << set;
          }
        }
      }
    }
  }
}

// The positions whose state anybody has who is left when the ranks are lost, member or spare, if
// nobody has trained since the first start.
std::set<int> PositionsLeft(const Job& job, const std::vector<int>& lost) {
  std::set<int> left;
  const auto add = [&](const RankState& trainer) {
    const int seat = FirstSeat(job, trainer);
    if (seat != -1) left.insert(seat % job.request.shards);
  };
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (std::count(lost.begin(), lost.end(), static_cast<int>(r)) == 0) add(job.ranks[r]);
  }
  for (const RankState& spare : job.spares) add(spare);
  return left;
}

void ExpectSecondRecovery(MemberJob played, const std::vector<int>& lost) {
  const int shards = played.job.request.shards;
  const bool is_left = static_cast<int>(PositionsLeft(played.job, lost).size()) == shards;
  LoseRanks(played, lost, 11);
  const Job& job = played.job;
  ASSERT_EQ(job.generation == Generation(3), is_left) << job.reason;
  if (!is_left) return;
  std::set<int> held;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const int position = static_cast<int>(r) % shards;
    ASSERT_EQ(job.ranks[r].seat % shards, position) << "half a replica";
    const int first = FirstSeat(job, job.ranks[r]);
    if (first != -1 && first % shards == position) held.insert(position);
  }
  ASSERT_EQ(static_cast<int>(held.size()), shards) << job.reason;
}

// Nobody has trained between the two losses: whoever came from another position has nothing for its
// new one, and whoever stands by still has a state.
TEST(ShardedRecoveryTest, SecondLossIsRecoveredAsLongAsTheStateIsLeft) {
  for (const auto& [replicas, shards] : std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {2, 3}}) {
    for (int spares = 0; spares <= 1; ++spares) {
      const MemberJob whole = ShardedJob(replicas, shards, spares, /*slots=*/1);
      const int ranks = replicas * shards;
      for (unsigned first = 1; first < 1U << ranks; ++first) {
        MemberJob played = whole;
        LoseRanks(played, RanksIn(first, ranks), 10);
        if (played.job.generation != Generation(2)) continue;
        const int left = static_cast<int>(played.job.ranks.size());
        for (unsigned second = 1; second < 1U << left; ++second) {
          ExpectSecondRecovery(played, RanksIn(second, left));
          ASSERT_FALSE(HasFailure()) << replicas << " x " << shards << ", " << spares
                                     << " spares: " << first << ", " << second;
        }
      }
    }
  }
}

TEST(ShardedRecoveryTest, SurvivorOfTheSamePositionComesBeforeASpare) {
  MemberJob played = ShardedJob(3, 2, /*spares=*/1, 0);
  LoseRanks(played, {1, 2}, 10);
  EXPECT_EQ(played.Nodes(), "adef") << "d was in position 1, too";
  EXPECT_EQ(FilledSeats(played.job), (std::vector<bool>{true, true, false, false, true, true}));
  ASSERT_EQ(played.job.spares.size(), 1U);
  EXPECT_EQ(played.job.spares[0].slot.node, NodeName("s0"));
  EXPECT_NE(played.job.reason.find("replica 1 (ranks 2 to 3) is given up"), std::string::npos)
      << played.job.reason;
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[3]).rank, Rank(3));
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[3]).shards, 2);
}

TEST(ShardedRecoveryTest, SpareComesBeforeANewTrainer) {
  MemberJob played = ShardedJob(3, 2, /*spares=*/1, /*slots=*/1);
  LoseRanks(played, {0, 2}, 10);
  EXPECT_EQ(played.Nodes(), "s0bf0def");
}

TEST(ShardedRecoveryTest, NewTrainerComesBeforeASurvivorOfAnotherPosition) {
  MemberJob played = ShardedJob(3, 2, 0, /*slots=*/1);
  LoseRanks(played, {0, 2}, 10);
  EXPECT_EQ(played.Nodes(), "f0bef");
  ASSERT_EQ(played.job.spares.size(), 1U);
  EXPECT_EQ(played.job.spares[0].slot.node, NodeName("d"));
}

TEST(ShardedRecoveryTest, SurvivorOfAnotherPositionComesLast) {
  MemberJob played = ShardedJob(3, 2, 0, 0);
  LoseRanks(played, {0, 2}, 10);
  EXPECT_EQ(played.Nodes(), "dbef");
  EXPECT_TRUE(played.job.spares.empty());
  const Job& job = played.job;
  EXPECT_TRUE(HasState(job, job.ranks[0]));
  EXPECT_FALSE(HasStateOfSeat(job, job.ranks[0], GroupsOfSeats(job)));
  played.TrainAll(11, 20);
  EXPECT_TRUE(HasStateOfSeat(job, job.ranks[0], GroupsOfSeats(job)));
}

TEST(ShardedRecoveryTest, ReadySpareNearTheReplicaIsTaken) {
  MemberJob played = ShardedJob(2, 2, /*spares=*/3, 0);
  std::vector<RankState>& spares = played.job.spares;
  spares[0].report.state = TrainerState::kStarting;
  spares[0].slot.node = spares[2].slot.node = NodeName("d");
  LoseRanks(played, {2}, 10);
  EXPECT_EQ(played.Nodes(), "abdd");
  EXPECT_EQ(spares.size(), 2U);
  EXPECT_EQ(played.job.ranks[2].report.state, TrainerState::kReady);
}

TEST(ShardedRecoveryTest, SlotNearTheReplicaIsTaken) {
  MemberJob played = ShardedJob(3, 2, 0, 0);
  played.slots.Add("d");
  played.slots.Add("b");
  LoseRanks(played, {0, 2}, 10);
  EXPECT_EQ(played.Nodes(), "bbddef");
}

TEST(ShardedRecoveryTest, HolderTakesTheSeatOfANewcomerIfNobodyElseHasItsState) {
  MemberJob played = ShardedJob(3, 2, 0, /*slots=*/2);
  LoseRanks(played, {0, 1}, 10);
  ASSERT_EQ(played.Nodes(), "f0f1cdef");
  LoseRanks(played, {1, 2, 5}, 11);
  EXPECT_EQ(played.Nodes(), "ed") << "f0 has not trained yet";
  ASSERT_EQ(played.job.spares.size(), 1U);
  EXPECT_EQ(played.job.spares[0].slot.node, NodeName("f0"));
}

TEST(ShardedRecoveryTest, WhoStandsByHasItsStateAsLongAsNobodyHasTrainedOn) {
  MemberJob played = ShardedJob(2, 2, 0, 0);
  LoseRanks(played, {3}, 10);
  ASSERT_EQ(played.Nodes(), "ab");
  MemberJob later = played;
  LoseRanks(played, {0}, 11);
  EXPECT_EQ(played.Nodes(), "cb") << "c was in position 0, too";
  EXPECT_EQ(played.job.generation, Generation(3)) << played.job.reason;
  later.TrainAll(11, 20);
  LoseRanks(later, {0}, 12);
  EXPECT_EQ(later.job.state, JobState::kStopping) << later.job.reason;
}

TEST(ShardedRecoveryTest, MemberGoesBackToThePositionWhoseStateItHas) {
  MemberJob played = ShardedJob(3, 2, 0, 0);
  LoseRanks(played, {0, 2}, 10);
  ASSERT_EQ(played.Nodes(), "dbef");
  LoseRanks(played, {1, 3}, 11);
  EXPECT_EQ(played.Nodes(), "ed") << played.job.reason;
}

TEST(ShardedRecoveryTest, WhoComesToASeatIsNotBlamedForItsFailures) {
  MemberJob played = ShardedJob(3, 2, 0, 0);
  LoseRanks(played, {0, 2}, 10);
  ASSERT_EQ(played.Nodes(), "dbef");
  LoseRanks(played, {0}, 11);
  EXPECT_FALSE(played.job.recovery.hopeless) << played.job.reason;
  EXPECT_EQ(played.job.state, JobState::kRecovering) << played.job.reason;
  EXPECT_EQ(played.Nodes(), "ef");
}

TEST(ShardedRecoveryTest, WaitsForItsReplicasIfItMayNotShrink) {
  JobRequest request = ShardedRequest(3, 2);
  request.recovery.min_ranks = 6;
  MemberJob played(request);
  LoseRanks(played, {5}, 10);
  EXPECT_EQ(played.job.generation, Generation(1));
  EXPECT_EQ(played.job.reason,
            "rank 5 on f: killed by SIGKILL; replica 2 (ranks 4 to 5) waits for 1 slot");
  LoseRanks(played, {0}, 11);
  EXPECT_NE(
      played.job.reason.find("replica 0 (ranks 0 to 1), replica 2 (ranks 4 to 5) wait for 2 slots"),
      std::string::npos)
      << played.job.reason;
  played.slots.Add("x");
  played.slots.Add("y");
  played.Advance(12);
  EXPECT_EQ(played.Nodes(), "xbcdey");
}

TEST(ShardedRecoveryTest, GrowsByWholeReplicas) {
  MemberJob played = ShardedJob(2, 2, 0, 0);
  LoseRanks(played, {3}, 10);
  ASSERT_EQ(played.Nodes(), "ab");
  played.TrainAll(11, 20);
  played.Advance(22);
  EXPECT_EQ(played.Nodes(), "ab") << "c alone is no replica";
  played.slots.Add("e");
  played.Advance(24);
  ASSERT_EQ(played.job.spares.size(), 2U);
  played.Ready(played.job.spares[1].report.id, 25);
  EXPECT_EQ(played.Nodes(), "abce");
  EXPECT_TRUE(MembershipOf(played.job, played.job.ranks[3]).planned);
}

TEST(ShardedRecoveryTest, RanksLeaveANodeOneByOne) {
  MemberJob played = ShardedJob(2, 2, 0, 0);
  ASSERT_EQ(RequestReplacement(played.job, NodeName("c"), "drained"), JobChange::kState);
  played.slots.Add("e");
  played.Advance(20);
  ASSERT_EQ(played.job.spares.size(), 1U);
  played.Ready(played.job.spares[0].report.id, 21);
  EXPECT_EQ(played.Nodes(), "abed");
}

TEST(ShardedStateTest, EachPositionIsAGroup) {
  MemberJob played(ShardedRequest(3, 2));
  Job& job = played.job;
  EXPECT_EQ(GroupsOfSeats(job), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_FALSE(HasLoneMember(job));
  EXPECT_EQ(WithoutLastHolders(job, {0, 1, 2, 3, 4, 5}), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(WithoutLastHolders(job, {0, 2, 4, 5}), (std::vector<size_t>{0, 2, 5}));
  job.plan.ladder = {{2, LadderScope::kSize, 1}, {4, LadderScope::kAll, 0}};
  EXPECT_EQ(GroupsOfSeats(job), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(HasLoneMember(job));
  EXPECT_EQ(WhyStateIsLost(job), "");
  job.ranks[3].lost = "gone";
  EXPECT_EQ(WhyStateIsLost(job), "no rank is left with the state of position 1 of replica 1");
}

TEST(ShardedStateTest, NodesOfALadderHoldWholeReplicas) {
  MemberJob played(ShardedRequest(3, 2));
  Job& job = played.job;
  job.plan.ladder = {{2, LadderScope::kNode, 0}, {4, LadderScope::kAll, 0}};
  const auto place = [&](const std::string& nodes) {
    for (size_t seat = 0; seat < nodes.size(); ++seat) {
      job.homes[seat].node = NodeName(nodes.substr(seat, 1));
    }
  };
  place("aaaabb");
  EXPECT_EQ(GroupsOfSeats(job), (std::vector<int>{0, 1, 0, 1, 2, 3}));
  place("aaabbb");
  EXPECT_EQ(GroupsOfSeats(job), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace paceline
