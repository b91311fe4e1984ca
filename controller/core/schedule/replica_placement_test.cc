// Placement of sharded jobs, against enumeration on small clusters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kCases = 4000;

JobRequest Sharded(int replicas, int shards, ReplicaPlacement replica) {
  JobRequest job;
  job.id = JobId("job-1");
  job.name = "job";
  job.ranks = replicas * shards;
  job.shards = shards;
  job.placement.replica = replica;
  return job;
}

JobRequest Preferring(int replicas, int shards) {
  return Sharded(replicas, shards, ReplicaPlacement::kPrefer);
}

JobRequest Requiring(int replicas, int shards) {
  return Sharded(replicas, shards, ReplicaPlacement::kRequire);
}

class TestNodes {
 public:
  // Adds node a, b, ...; the last `free` of its slots are free.
  void Add(int total, int free, const std::string& rack = "", const std::string& island = "") {
    labels_.push_back({{"rack", rack}, {"island", island}});
    NodeSpace node{NodeName(std::string(1, static_cast<char>('a' + spaces.size()))), total, {}};
    for (int number = total - free; number < total; ++number) node.free.push_back(number);
    node.open = true;
    node.labels = &labels_.back();
    spaces.push_back(std::move(node));
  }

  void Label(size_t node, const std::string& label, const std::string& value) {
    (*std::next(labels_.begin(), static_cast<int64_t>(node)))[label] = value;
  }

  const std::string& Label(size_t node, const std::string& label) const {
    return spaces[node].labels->at(label);
  }

  size_t Find(const NodeName& name) const { return static_cast<size_t>(name.value()[0] - 'a'); }

  // The narrowest kind of domain that has all of these nodes.
  Span SpanOf(const std::set<size_t>& nodes) const {
    std::set<std::string> racks, islands;
    for (const size_t n : nodes) {
      racks.insert(Label(n, "rack"));
      islands.insert(Label(n, "rack") + "/" + Label(n, "island"));
    }
    if (nodes.size() == 1) return Span::kNode;
    if (islands.size() == 1) return Span::kIsland;
    return racks.size() == 1 ? Span::kRack : Span::kAnywhere;
  }

  // Replicas of `shards` ranks that fit, each within a domain of this kind.
  int Capacity(Span span, int shards, bool empty) const {
    std::map<std::string, int> room;
    for (size_t n = 0; n < spaces.size(); ++n) {
      const std::string rack = Label(n, "rack");
      const std::string island = rack + "/" + Label(n, "island");
      const std::string domain = span == Span::kNode     ? spaces[n].name.value()
                                 : span == Span::kIsland ? island
                                 : span == Span::kRack   ? rack
                                                         : "";
      room[domain] += empty ? spaces[n].total : static_cast<int>(spaces[n].free.size());
    }
    int replicas = 0;
    for (const auto& [domain, slots] : room) replicas += slots / shards;
    return replicas;
  }

  // The narrowest kind of domain, up to `widest`, with which so many replicas fit.
  Span Narrowest(int replicas, int shards, Span widest, bool empty) const {
    for (const Span span : {Span::kNode, Span::kIsland, Span::kRack}) {
      if (span < widest && Capacity(span, shards, empty) >= replicas) return span;
    }
    return widest;
  }

  std::vector<NodeSpace> spaces;  // Borrow from labels_.

 private:
  std::list<std::map<std::string, std::string>> labels_;
};

// Names of the nodes of rank 0, 1, ..., then those of the spares after a bar.
std::string Nodes(const Placement& placement) {
  std::string text;
  for (const Slot& slot : placement.slots) text += slot.node.value();
  if (!placement.spares.empty()) text += '|';
  for (const Slot& slot : placement.spares) text += slot.node.value();
  return text;
}

// By replica: its nodes.
std::vector<std::set<size_t>> ReplicasOf(const Placement& placement, int shards,
                                         const TestNodes& nodes) {
  std::vector<std::set<size_t>> replicas;
  for (size_t r = 0; r < placement.slots.size(); ++r) {
    if (r % static_cast<size_t>(shards) == 0) replicas.emplace_back();
    replicas.back().insert(nodes.Find(placement.slots[r].node));
  }
  return replicas;
}

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }

  // 1 to 4 nodes of 1 to 4 slots each, some of them held, in two racks of two islands each.
  TestNodes Cluster() {
    TestNodes nodes;
    for (int n = 1 + Below(4); n > 0; --n) {
      const int total = 1 + Below(4);
      nodes.Add(total, Below(total + 1), absl::StrCat(Below(2)), absl::StrCat(Below(2)));
    }
    return nodes;
  }

 private:
  std::mt19937_64 random_;
};

void ExpectSoundSlots(const Placement& placement, const TestNodes& nodes) {
  std::set<std::pair<NodeName, int>> taken;
  for (const Slot& slot : placement.slots) {
    const std::vector<int>& free = nodes.spaces[nodes.Find(slot.node)].free;
    EXPECT_EQ(std::count(free.begin(), free.end(), slot.number), 1);
    EXPECT_TRUE(taken.emplace(slot.node, slot.number).second) << "taken twice";
  }
}

TEST(ReplicaPlacementTest, OneReplicaIsAsNearAsEnumerationFinds) {
  Random random(1);
  for (int free = 0; free < 625; ++free) {
    for (int shards = 2; shards <= 4; ++shards) {
      TestNodes nodes;
      for (int n = 0, left = free; n < 4; ++n, left /= 5) {
        nodes.Add(4, left % 5, absl::StrCat(random.Below(2)), absl::StrCat(random.Below(2)));
      }
      bool fits = false;
      std::pair<Span, size_t> best;  // {span, number of nodes}
      for (unsigned chosen = 1; chosen < 16; ++chosen) {
        std::set<size_t> set;
        size_t room = 0;
        for (size_t n = 0; n < 4; ++n) {
          if ((chosen >> n & 1) == 0) continue;
          set.insert(n);
          room += nodes.spaces[n].free.size();
        }
        if (room < static_cast<size_t>(shards)) continue;
        const auto cost = std::make_pair(nodes.SpanOf(set), set.size());
        best = fits ? std::min(best, cost) : cost;
        fits = true;
      }
      const Placement placement = PlaceRanks(Preferring(1, shards), nodes.spaces);
      ASSERT_EQ(!placement.slots.empty(), fits) << free;
      if (!fits) continue;
      ExpectSoundSlots(placement, nodes);
      const std::set<size_t> found = ReplicasOf(placement, shards, nodes)[0];
      ASSERT_EQ(std::make_pair(nodes.SpanOf(found), found.size()), best)
          << Nodes(placement) << ", free slots (digits of base 5): " << free;
    }
  }
}

TEST(ReplicaPlacementTest, PreferredReplicasStartWhereTheirRanksFitAndAreAsNarrowAsCanBe) {
  for (int seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(static_cast<uint64_t>(seed));
    const TestNodes nodes = random.Cluster();
    const int shards = 2 + random.Below(3);
    const int count = 1 + random.Below(3);
    int free = 0;
    for (const NodeSpace& node : nodes.spaces) free += static_cast<int>(node.free.size());
    const Placement placement = PlaceRanks(Preferring(count, shards), nodes.spaces);
    if (free < count * shards) {
      ASSERT_THAT(placement.slots, IsEmpty());
      continue;
    }
    ASSERT_EQ(placement.slots.size(), static_cast<size_t>(count * shards));
    ExpectSoundSlots(placement, nodes);
    Span widest = Span::kNode;
    for (const std::set<size_t>& replica : ReplicasOf(placement, shards, nodes)) {
      widest = std::max(widest, nodes.SpanOf(replica));
    }
    ASSERT_EQ(widest, nodes.Narrowest(count, shards, Span::kAnywhere, /*empty=*/false))
        << Nodes(placement);
  }
}

TEST(ReplicaPlacementTest, RequiredReplicasAreNeverWiderAndStartWheneverTheyFit) {
  for (int seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(static_cast<uint64_t>(seed));
    const TestNodes nodes = random.Cluster();
    const int shards = 2 + random.Below(3);
    const int count = 1 + random.Below(3);
    const JobRequest job = Requiring(count, shards);
    const Span widest = nodes.Narrowest(1, shards, Span::kRack, /*empty=*/true);
    const Placement placement = PlaceRanks(job, nodes.spaces);
    ASSERT_EQ(!placement.slots.empty(), nodes.Capacity(widest, shards, /*empty=*/false) >= count);
    ASSERT_EQ(CanEverFit(job, nodes.spaces).ok(),
              nodes.Capacity(widest, shards, /*empty=*/true) >= count);
    ExpectSoundSlots(placement, nodes);
    for (const std::set<size_t>& replica : ReplicasOf(placement, shards, nodes)) {
      ASSERT_LE(nodes.SpanOf(replica), widest) << Nodes(placement);
    }
  }
}

TEST(ReplicaPlacementTest, UnshardedJobsGoWhereTheyWentWithoutReplicas) {
  for (int seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(static_cast<uint64_t>(seed));
    const TestNodes nodes = random.Cluster();
    const NodeIndex index = IndexOf(nodes.spaces);
    Packing packing(index);
    for (int n = 0; n < index.size(); ++n) {
      packing.SetRoom(n, static_cast<int>(nodes.spaces[static_cast<size_t>(n)].free.size()));
    }
    const int ranks = 1 + random.Below(8);
    std::string expected;
    for (const NodeShare& share : packing.Pack(ranks)) {
      for (int i = 0; i < share.count; ++i) {
        expected += nodes.spaces[static_cast<size_t>(share.node)].name.value();
      }
    }
    ASSERT_EQ(Nodes(PlaceRanks(Preferring(ranks, 1), nodes.spaces)), expected);
    ASSERT_EQ(Nodes(PlaceRanks(Requiring(ranks, 1), nodes.spaces)), expected);
    JobRequest whole = Requiring(1 + random.Below(3), 1 + random.Below(4));
    whole.placement.ranks_per_node = whole.shards;
    JobRequest unsharded = whole;
    unsharded.shards = 1;
    ASSERT_EQ(Nodes(PlaceRanks(whole, nodes.spaces)), Nodes(PlaceRanks(unsharded, nodes.spaces)))
        << "where each node has a replica";
  }
}

TEST(ReplicaPlacementTest, JobsOfAPassSeeWhatThoseBeforeThemHaveLeft) {
  for (int seed = 0; seed < kCases / 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(static_cast<uint64_t>(seed));
    const TestNodes nodes = random.Cluster();
    const NodeIndex index = IndexOf(nodes.spaces);
    SlotTable table(nodes.spaces, index);
    std::vector<NodeSpace> left = nodes.spaces;
    for (int i = 0; i < 8; ++i) {
      const auto replica =
          random.Below(2) == 0 ? ReplicaPlacement::kPrefer : ReplicaPlacement::kRequire;
      const JobRequest job = Sharded(1 + random.Below(2), 1 + random.Below(3), replica);
      const SlotTable::Packed packed = table.Pack(job);
      ASSERT_EQ(packed.shares.empty(), PlaceRanks(job, left).slots.empty()) << "job " << i;
      for (const Slot& slot : table.Take(packed.shares)) {
        std::vector<int>& free = left[nodes.Find(slot.node)].free;
        const auto found = std::find(free.begin(), free.end(), slot.number);
        ASSERT_TRUE(found != free.end()) << "taken twice";
        free.erase(found);
      }
    }
  }
}

TEST(ReplicaPlacementTest, LargeReplicasTakeWholeNodesOfOneIsland) {
  TestNodes nodes;
  nodes.Add(4, 4, "1", "x");
  nodes.Add(4, 4, "1", "y");
  nodes.Add(4, 4, "1", "y");
  nodes.Add(4, 2, "1", "y");
  nodes.Add(4, 4, "2", "y");
  EXPECT_EQ(Nodes(PlaceRanks(Requiring(1, 8), nodes.spaces)), "bbbbcccc");
  EXPECT_EQ(Nodes(PlaceRanks(Requiring(2, 5), nodes.spaces)), "bbbbdccccd");
  EXPECT_EQ(Nodes(PlaceRanks(Preferring(1, 13), nodes.spaces)), "aaaabbbbccccd") << "in a rack";
  const Placement waits = PlaceRanks(Requiring(2, 8), nodes.spaces);
  EXPECT_THAT(waits.slots, IsEmpty());
  EXPECT_EQ(waits.reason,
            "waits for 16 slots, the 8 of a replica in one island: 18 free now (for 1 replica)");
  EXPECT_THAT(std::string(CanEverFit(Requiring(2, 8), nodes.spaces).message()),
              HasSubstr("the job needs 2 replicas of 8 slots in one island each, and the nodes "
                        "that it may use have room for 1: ask for fewer"));
}

TEST(ReplicaPlacementTest, NodesOfAFixedNumberOfRanksShareTheIslandOfTheirReplica) {
  TestNodes nodes;
  nodes.Add(4, 4, "1", "x");
  nodes.Add(4, 2, "1", "y");
  nodes.Add(4, 4, "1", "y");
  JobRequest job = Requiring(1, 4);
  job.placement.ranks_per_node = 2;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "bbcc");
}

TEST(ReplicaPlacementTest, SameLabelIsThatWithTheNearestReplicas) {
  TestNodes nodes;
  nodes.Add(4, 1, "1");
  nodes.Add(4, 1, "1");
  nodes.Add(4, 3, "2");
  JobRequest job = Preferring(1, 2);
  job.placement.same = "rack";
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "cc");
  nodes.spaces[2].open = false;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "ab");
  job.placement.replica = ReplicaPlacement::kRequire;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "");
}

TEST(ReplicaPlacementTest, SparesGoWhereTheyCanServe) {
  TestNodes nodes;
  nodes.Add(2, 2, "1", "x");
  nodes.Add(3, 3, "1", "x");
  nodes.Add(3, 3, "2", "y");
  JobRequest job = Preferring(1, 2);
  job.spares = 2;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "aa|bb") << "on another node of its island";
  job.placement.replica = ReplicaPlacement::kRequire;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "aa") << "no other node can have its ranks";
  job.ranks = 4;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "bbaa|b");
  nodes.Label(2, "rack", "1");
  nodes.Label(2, "island", "x");
  job = Requiring(1, 4);
  job.spares = 2;
  EXPECT_EQ(Nodes(PlaceRanks(job, nodes.spaces)), "bbba|cc") << "in its island";
}

class ReplacementTest : public ::testing::Test {
 protected:
  ReplacementTest() {
    nodes_.Add(4, 1, "1", "x");
    nodes_.Add(4, 1, "1", "x");
    nodes_.Add(4, 1, "1", "y");
    nodes_.Add(4, 4, "2", "x");
    wish_.ranks = {{NodeName("d"), 0, "2", "x"}};
  }

  // The nodes of this and further replacements, in order.
  std::string All(const JobRequest& job) {
    std::string text;
    SlotWish wish = wish_;
    while (true) {
      const Placement found = PlaceOne(job, nodes_.spaces, wish);
      if (found.slots.empty()) return text;
      text += found.slots[0].node.value();
      wish.avoid.insert(found.slots[0].node);
    }
  }

  TestNodes nodes_;
  SlotWish wish_;
};

TEST_F(ReplacementTest, GoesNearItsReplicaFirst) {
  EXPECT_EQ(All(Preferring(2, 2)), "dabc") << "near the job's ranks";
  wish_.replica = {NodeName("b")};
  EXPECT_EQ(All(Preferring(2, 2)), "bacd");
  wish_.replica = {NodeName("c")};
  EXPECT_EQ(All(Preferring(2, 2)), "cabd");
}

TEST_F(ReplacementTest, GoesOnlyIntoTheDomainOfItsReplicaIfThatIsRequired) {
  wish_.replica = {NodeName("b")};
  EXPECT_EQ(All(Requiring(2, 4)), "b") << "a node could have 4 ranks";
  EXPECT_EQ(All(Requiring(2, 5)), "ba") << "an island could";
  EXPECT_EQ(All(Requiring(2, 9)), "bac") << "a rack could";
}

TEST_F(ReplacementTest, ReplicaWithoutAnyRankIsPlacedAsAWhole) {
  EXPECT_EQ(Nodes(PlaceReplica(Preferring(2, 4), nodes_.spaces, wish_, 4)), "dddd");
  EXPECT_EQ(Nodes(PlaceReplica(Requiring(2, 4), nodes_.spaces, wish_, 4)), "dddd");
  wish_.avoid = {NodeName("d")};
  EXPECT_EQ(Nodes(PlaceReplica(Preferring(2, 4), nodes_.spaces, wish_, 3)), "abc");
  const Placement none = PlaceReplica(Requiring(2, 4), nodes_.spaces, wish_, 3);
  EXPECT_THAT(none.slots, IsEmpty());
  EXPECT_EQ(none.reason,
            "there are no 3 free slots on one node for a replica where the job may run");
}

TEST_F(ReplacementTest, DomainOfARunningJobDoesNotFollowFromTheNodes) {
  wish_.domain = Span::kIsland;
  wish_.avoid = {NodeName("d")};
  EXPECT_EQ(Nodes(PlaceReplica(Requiring(2, 4), nodes_.spaces, wish_, 2)), "ab");
  EXPECT_EQ(Nodes(PlaceReplica(Requiring(2, 4), nodes_.spaces, wish_, 3)), "");
  wish_.replica = {NodeName("b")};
  EXPECT_EQ(All(Requiring(2, 4)), "ba");
}

TEST_F(ReplacementTest, ReplicaOfAJobWithoutAnyRankHasTheSameLabel) {
  wish_.ranks.clear();
  JobRequest job = Preferring(1, 5);
  EXPECT_EQ(Nodes(PlaceReplica(job, nodes_.spaces, wish_, 5)), "dddda");
  job.placement.same = "rack";
  EXPECT_EQ(Nodes(PlaceReplica(job, nodes_.spaces, wish_, 5)), "") << "no rack has 5 free slots";
  EXPECT_EQ(Nodes(PlaceReplica(job, nodes_.spaces, wish_, 4)), "dddd");
}

TEST(ReplicaPlacementTest, ReplicasStayWholeWhenTheyAreSortedByNode) {
  Job job = NewJob(Preferring(4, 2), 1, {});
  std::vector<Slot> slots;
  for (const char* node : {"a", "a", "b", "a", "b", "b", "a", "a"}) {
    slots.push_back({NodeName(node), static_cast<int>(slots.size())});
  }
  PlaceJob(job, slots, {});
  std::string order;
  for (const RankState& rank : job.ranks) {
    absl::StrAppend(&order, rank.slot.node.value(), rank.slot.number, " ");
  }
  EXPECT_EQ(order, "a0 a1 a6 a7 b2 a3 b4 b5 ");
}

}  // namespace
}  // namespace paceline
