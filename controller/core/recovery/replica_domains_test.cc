// Sharded jobs on nodes of two slots: in which domains their replicas are when ranks are lost, move
// or come back. Replicas of two ranks have a node each; larger ones have an island.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The slot `number` of domain a, b, ...: of nodes a0, a1, ... in island a.
Slot SlotIn(char domain, int number) {
  return {NodeName(absl::StrCat(std::string(1, domain), number / 2)), number % 2, "",
          std::string(1, domain)};
}

// The same place again, when it is free.
Slot Again(Slot slot) {
  slot.number += 10;
  return slot;
}

char HomeOf(int replica) { return static_cast<char>('a' + replica); }

struct Situation {
  int replicas = 0;
  int shards = 0;
  bool is_required = false;
  std::vector<Slot> spares = {};
  std::vector<int> lost = {};
  std::vector<Slot> free = {};

  Span DomainKind() const { return shards == 2 ? Span::kNode : Span::kIsland; }
  bool IsIn(char domain, const Slot& slot) const {
    return SpanTo({SlotIn(domain, 0)}, slot) <= DomainKind();
  }
  int Survivors(int replica) const {
    const auto hits = [&](int rank) { return rank / shards == replica; };
    return shards - static_cast<int>(std::count_if(lost.begin(), lost.end(), hits));
  }
  // Spares and free slots there.
  int Room(char domain) const {
    const auto is_in = [&](const Slot& slot) { return IsIn(domain, slot); };
    return static_cast<int>(std::count_if(spares.begin(), spares.end(), is_in) +
                            std::count_if(free.begin(), free.end(), is_in));
  }
  bool CanBeWhole(int replica) const {
    return Survivors(replica) + Room(HomeOf(replica)) >= shards;
  }

  int WholeReplicas() const {
    if (!is_required) {
      const int survivors = replicas * shards - static_cast<int>(lost.size());
      const int there = survivors + static_cast<int>(spares.size() + free.size());
      return std::min(replicas, there / shards);
    }
    int whole = 0;
    int homeless = 0;
    int homes = Room('z') >= shards ? 1 : 0;  // For those of which nobody is left.
    for (int replica = 0; replica < replicas; ++replica) {
      const bool is_homeless = Survivors(replica) == 0;
      if (is_homeless) ++homeless;
      if (CanBeWhole(replica)) ++(is_homeless ? homes : whole);
    }
    return whole + std::min(homeless, homes);
  }

  // Whether each position has a survivor, for domains that are required in a replica that is whole.
  bool HasState(bool anywhere) const {
    std::set<int> held;
    for (int rank = 0; rank < replicas * shards; ++rank) {
      if (std::count(lost.begin(), lost.end(), rank) > 0) continue;
      if (anywhere || CanBeWhole(rank / shards)) held.insert(rank % shards);
    }
    return static_cast<int>(held.size()) == shards;
  }
};

MemberJob Start(const Situation& situation) {
  JobRequest request = ShardedRequest(situation.replicas, situation.shards,
                                      static_cast<int>(situation.spares.size()));
  if (situation.is_required) request.placement.replica = ReplicaPlacement::kRequire;
  std::vector<Slot> slots;
  for (int rank = 0; rank < request.ranks; ++rank) {
    slots.push_back(SlotIn(HomeOf(rank / situation.shards), rank % situation.shards));
  }
  MemberJob played(std::move(request), std::move(slots));
  if (situation.is_required) played.slots.Require(situation.DomainKind());
  for (const Slot& slot : situation.spares) played.slots.Add(slot);
  played.Advance(5);
  const std::vector<RankState> started = played.job.spares;
  EXPECT_EQ(started.size(), situation.spares.size());
  for (const RankState& spare : started) played.Ready(spare.report.id, 5);
  return played;
}

void ExpectWholeReplicas(const Job& job, const Situation& situation) {
  ASSERT_EQ(static_cast<int>(job.ranks.size()), situation.WholeReplicas() * situation.shards)
      << job.reason;
  std::set<int> held;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const int position = static_cast<int>(r) % situation.shards;
    const RankState& first = job.ranks[r - static_cast<size_t>(position)];
    ASSERT_EQ(job.ranks[r].seat, first.seat + position);
    ASSERT_EQ(first.seat % situation.shards, 0);
    const int began = FirstSeat(job, job.ranks[r]);
    if (began != -1 && began % situation.shards == position) held.insert(position);
    if (!situation.is_required) continue;
    ASSERT_LE(SpanTo({first.slot}, job.ranks[r].slot), situation.DomainKind()) << job.reason;
  }
  ASSERT_EQ(static_cast<int>(held.size()), situation.shards) << "a part of the model is lost";
  std::set<std::pair<NodeName, int>> taken;
  for (const RankState* trainer : TrainersOf(job)) {
    ASSERT_TRUE(taken.emplace(trainer->slot.node, trainer->slot.number).second) << "twice";
  }
}

// A replica only gets a spare or a new trainer from elsewhere when it has all those of its domain.
void ExpectFilledInTheDomainFirst(const Job& job, const Situation& situation) {
  for (int replica = 0; replica < situation.replicas; ++replica) {
    if (situation.Survivors(replica) == 0) continue;
    int inside = 0;
    int outside = 0;
    for (const RankState& member : job.ranks) {
      const bool is_new = FirstSeat(job, member) == -1 && member.seat / situation.shards == replica;
      if (is_new) ++(situation.IsIn(HomeOf(replica), member.slot) ? inside : outside);
    }
    if (outside > 0) {
      ASSERT_EQ(inside, situation.Room(HomeOf(replica))) << job.reason;
    }
  }
}

void ExpectRecovery(MemberJob played, const Situation& situation) {
  for (const Slot& slot : situation.free) played.slots.Add(slot);
  LoseRanks(played, situation.lost, 10);
  const Job& job = played.job;
  if (!situation.HasState(/*anywhere=*/true)) {
    ASSERT_NE(job.state, JobState::kRecovering) << job.reason;
    return;
  }
  ASSERT_EQ(job.state, JobState::kRecovering) << job.reason;
  const bool goes_on =
      situation.WholeReplicas() > 0 && situation.HasState(/*anywhere=*/!situation.is_required);
  ASSERT_EQ(job.generation, Generation(goes_on ? 2 : 1)) << job.reason;
  if (!goes_on && situation.is_required) {
    ASSERT_THAT(job.reason, HasSubstr("(placement.replica: require)"));
  }
  if (!goes_on) return;
  ExpectWholeReplicas(job, situation);
  ExpectFilledInTheDomainFirst(job, situation);
}

// Every loss, with each part of the slots of lost ranks free again, and with as many slots as said
// in an empty domain. The spare, if any, is there too, or in the first replica's domain.
void ExpectRecoveries(int replicas, int shards, bool is_required) {
  const int ranks = replicas * shards;
  Situation situation;
  situation.replicas = replicas;
  situation.shards = shards;
  situation.is_required = is_required;
  const Slot near = shards == 2 ? Slot{NodeName("a0"), 2, "", "a"} : SlotIn('a', 3);
  for (const std::vector<Slot>& spares :
       std::vector<std::vector<Slot>>{{}, {near}, {SlotIn('z', 0)}}) {
    situation.spares = spares;
    const MemberJob played = Start(situation);
    for (unsigned lost = 1; lost < 1U << ranks; ++lost) {
      situation.lost = RanksIn(lost, ranks);
      for (unsigned again = lost;; again = (again - 1) & lost) {
        for (const int elsewhere : {0, shards}) {
          situation.free.clear();
          const int first = situation.Room('z');
          for (int n = first; n < first + elsewhere; ++n) situation.free.push_back(SlotIn('z', n));
          for (const int rank : RanksIn(again, ranks)) {
            situation.free.push_back(Again(SlotIn(HomeOf(rank / shards), rank % shards)));
          }
          ExpectRecovery(played, situation);
          ASSERT_FALSE(::testing::Test::HasFailure())
              << replicas << " x " << shards << ", " << spares.size() << " spares, lost " << lost
              << ", of these free again " << again << ", elsewhere " << elsewhere;
        }
        if (again == 0) break;
      }
    }
  }
}

TEST(ReplicaDomainsTest, RequiredDomainsAreNeverLeftWhateverIsLost) {
  ExpectRecoveries(2, 2, /*is_required=*/true);
  ExpectRecoveries(3, 2, /*is_required=*/true);
  ExpectRecoveries(2, 3, /*is_required=*/true);
}

TEST(ReplicaDomainsTest, PreferredDomainsAreLeftOnlyWhenNothingIsFreeThere) {
  ExpectRecoveries(2, 2, /*is_required=*/false);
  ExpectRecoveries(3, 2, /*is_required=*/false);
  ExpectRecoveries(2, 3, /*is_required=*/false);
}

Situation Pairs(bool is_required) {
  Situation situation;
  situation.replicas = 2;
  situation.shards = 2;
  situation.is_required = is_required;
  return situation;
}

TEST(ReplicaDomainsTest, SlotOfTheDomainComesBeforeASpareElsewhere) {
  Situation situation = Pairs(/*is_required=*/false);
  situation.spares = {SlotIn('z', 0)};
  MemberJob played = Start(situation);
  MemberJob other = played;
  played.slots.Add(Again(SlotIn('b', 0)));
  LoseRanks(played, {2}, 10);
  EXPECT_EQ(played.Nodes(), "a0a0b0b0");
  LoseRanks(other, {2}, 10);
  EXPECT_EQ(other.Nodes(), "a0a0z0b0") << "nothing is free there";
}

TEST(ReplicaDomainsTest, ReasonSaysWhichDomainHasNoSlot) {
  Situation situation = Pairs(/*is_required=*/true);
  MemberJob played = Start(situation);
  played.job.request.recovery.min_ranks = 4;
  played.slots.Add(SlotIn('z', 0));
  LoseRanks(played, {2}, 10);
  EXPECT_EQ(played.job.reason,
            "rank 2 on b0: killed by SIGKILL; replica 1 (ranks 2 to 3) waits for 1 slot on node b0 "
            "(placement.replica: require)");
  MemberJob other = played;
  LoseRanks(other, {3}, 11);
  EXPECT_THAT(other.job.reason, HasSubstr("replica 1 (ranks 2 to 3) waits for 2 slots on one node "
                                          "(placement.replica: require)"));
  other.slots.Add(SlotIn('z', 1));
  other.Advance(12);
  EXPECT_EQ(other.Nodes(), "a0a0z0z0") << other.job.reason;
  played.slots.Add(Again(SlotIn('b', 0)));
  played.Advance(12);
  EXPECT_EQ(played.Nodes(), "a0a0b0b0") << played.job.reason;
}

TEST(ReplicaDomainsTest, ReasonSaysWhereALastStateIs) {
  MemberJob played = Start(Pairs(/*is_required=*/true));
  played.slots.Add(Again(SlotIn('a', 0)));
  LoseRanks(played, {0, 3}, 10);
  EXPECT_THAT(played.job.reason, HasSubstr("the state of position 0 is only on node b0"));
  played.slots.Add(Again(SlotIn('b', 1)));
  played.Advance(11);
  EXPECT_EQ(played.Nodes(), "a0a0b0b0") << played.job.reason;
}

TEST(ReplicaDomainsTest, GrowsInADomainThatHasRoomForAReplica) {
  MemberJob played = Start(Pairs(/*is_required=*/true));
  LoseRanks(played, {3}, 10);
  ASSERT_EQ(played.Nodes(), "a0a0") << "rank 2 stands by";
  played.TrainAll(11, 20);
  played.slots.Add(SlotIn('y', 0));
  played.slots.Add(SlotIn('z', 0));
  played.Advance(22);
  EXPECT_EQ(played.job.spares.size(), 1U) << "two slots on two nodes are no replica's";
  played.slots.Add(SlotIn('z', 1));
  played.Advance(24);
  ASSERT_EQ(played.job.spares.size(), 3U);
  played.Advance(25);
  ASSERT_EQ(played.job.spares.size(), 2U) << "nothing is free beside rank 2";
  const std::vector<RankState> started = played.job.spares;
  for (const RankState& spare : started) {
    EXPECT_EQ(spare.slot.node, NodeName("z0"));
    EXPECT_EQ(played.Nodes(), "a0a0") << "one of them is no replica";
    played.Ready(spare.report.id, 26);
  }
  EXPECT_EQ(played.Nodes(), "a0a0z0z0");
}

TEST(ReplicaDomainsTest, ReplicaLeavesItsNodeAsAWhole) {
  MemberJob played = Start(Pairs(/*is_required=*/true));
  played.slots.Add(SlotIn('z', 0));
  ASSERT_EQ(RequestReplacement(played.job, NodeName("a0"), "drained"), JobChange::kState);
  played.Advance(20);
  EXPECT_THAT(played.job.spares, IsEmpty());
  played.slots.Add(SlotIn('z', 1));
  played.Advance(22);
  const std::vector<RankState> started = played.job.spares;
  ASSERT_EQ(started.size(), 2U);
  for (const RankState& spare : started) {
    EXPECT_EQ(played.Nodes(), "a0a0b0b0");
    played.Ready(spare.report.id, 23);
  }
  EXPECT_EQ(played.Nodes(), "z0z0b0b0");
  EXPECT_TRUE(played.job.recovery.history.back().planned);
}

TEST(ReplicaDomainsTest, ReplicaIsNotTornWhenAMoveFails) {
  MemberJob played = Start(Pairs(/*is_required=*/true));
  RequestReplacement(played.job, NodeName("a0"), "drained");
  for (const int number : {0, 1}) played.slots.Add(SlotIn('z', number));
  played.Advance(20);
  const std::vector<RankState> started = played.job.spares;
  for (const RankState& spare : started) played.Ready(spare.report.id, 21);
  ASSERT_EQ(played.Nodes(), "z0z0b0b0");
  played.Train(played.Id(0), 22);
  MemberJob other = played;
  played.slots.Add(Again(SlotIn('z', 1)));
  played.End(played.Id(1), 23);
  EXPECT_EQ(played.Nodes(), "z0z0b0b0") << played.job.reason;
  other.End(other.Id(1), 23);
  EXPECT_EQ(other.Nodes(), "b0b0") << other.job.reason;
}

TEST(ReplicaDomainsTest, ReplicaStaysInItsDomainIfItsLastMemberGoesBackToAnother) {
  JobRequest request = ShardedRequest(3, 2);
  request.placement.replica = ReplicaPlacement::kRequire;
  std::vector<Slot> slots;
  for (int number = 0; number < 6; ++number) slots.push_back({NodeName("a"), number});
  MemberJob played(std::move(request), std::move(slots));
  played.slots.Require(Span::kNode);
  LoseRanks(played, {2, 4}, 10);
  ASSERT_EQ(played.Nodes(), "aaaa") << played.job.reason;
  ASSERT_EQ(FirstSeat(played.job, played.job.ranks[2]), 5) << "it was in position 1";
  for (const int number : {6, 7}) played.slots.Add("a", number);
  LoseRanks(played, {1, 3}, 11);
  EXPECT_EQ(played.job.generation, Generation(3)) << played.job.reason;
  EXPECT_EQ(FirstSeat(played.job, played.job.ranks[1]), 5) << "nobody else has its state";
  EXPECT_EQ(played.Nodes(), "aaaa");
}

TEST(ChooseNearTest, TakesTheNearestOfTheDomain) {
  using Indices = std::vector<size_t>;
  const std::vector<Slot> slots = {{NodeName("a"), 0, "r", "i"},
                                   {NodeName("b"), 0, "r", "j"},
                                   {NodeName("c"), 0, "s", "i"},
                                   {NodeName("d"), 0, "r", "j"},
                                   {NodeName("b"), 1, "r", "j"}};
  const std::vector<Slot> others = {{NodeName("b"), 2, "r", "j"}};
  EXPECT_EQ(ChooseNear(slots, others, Span::kAnywhere, 9), (Indices{1, 4, 3, 0, 2}));
  EXPECT_EQ(ChooseNear(slots, others, Span::kIsland, 9), (Indices{1, 4, 3}));
  EXPECT_EQ(ChooseNear(slots, others, Span::kRack, 2), (Indices{1, 4}));
  EXPECT_EQ(ChooseNear(slots, {}, Span::kAnywhere, 2), (Indices{1, 4})) << "a node has two";
  EXPECT_EQ(ChooseNear(slots, {}, Span::kAnywhere, 4), (Indices{0, 1, 3, 4})) << "a rack";
  EXPECT_EQ(ChooseNear(slots, {}, Span::kNode, 3), (Indices{1, 4})) << "as many as there are";
  EXPECT_THAT(ChooseNear({}, {}, Span::kAnywhere, 1), IsEmpty());
}

}  // namespace
}  // namespace paceline
