#include "controller/core/schedule/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobRequest Ranks(int ranks, Device device = Device::kCpu) {
  return {JobId("job-1"), "digits", ranks, device, ""};
}

// A node whose last `free` slots are free.
NodeSpace Space(const char* name, int total, int free, bool open = true) {
  NodeSpace space{NodeName(name), total, {}, open};
  for (int number = total - free; number < total; ++number) space.free.push_back(number);
  return space;
}

std::vector<std::string> Names(const Placement& placement) {
  std::vector<std::string> names;
  for (const Slot& slot : placement.slots) {
    names.push_back(slot.node.value() + std::to_string(slot.number));
  }
  return names;
}

TEST(PlacementTest, TakesTheEmptiestNodesFirstAndFillsTheLastOne) {
  EXPECT_THAT(Names(PlaceRanks(Ranks(4), {Space("a", 4, 1), Space("b", 4, 3), Space("c", 4, 2)})),
              ElementsAre("b1", "b2", "b3", "a3"));
}

class PlacementOnRacks : public ::testing::Test {
 protected:
  using Labels = std::map<std::string, std::string>;

  // Adds a node whose slots are all free.
  void Add(const char* name, int slots, Labels labels = {}, int spec_version = 0) {
    labels_.push_back(std::move(labels));
    NodeSpace space = Space(name, slots, slots);
    space.spec_version = spec_version;
    space.labels = &labels_.back();
    nodes_.push_back(std::move(space));
  }

  // Names of the nodes of rank 0, 1, ..., then those of the spares after a bar.
  std::string Nodes(const JobRequest& job) {
    const Placement placement = PlaceRanks(job, nodes_);
    std::string text;
    for (const Slot& slot : placement.slots) text += slot.node.value();
    if (!placement.spares.empty()) text += '|';
    for (const Slot& slot : placement.spares) text += slot.node.value();
    return text;
  }

  std::string One(const JobRequest& job, const SlotWish& wish) {
    const Placement placement = PlaceOne(job, nodes_, wish);
    return placement.slots.empty() ? placement.reason : placement.slots[0].node.value();
  }

  std::list<Labels> labels_;  // A list, which does not move what is borrowed.
  std::vector<NodeSpace> nodes_;
};

TEST_F(PlacementOnRacks, NodeThatIsFilledExactlyGoesBeforeAnEmptyOne) {
  Add("a", 8);
  Add("b", 2);
  Add("c", 3);
  EXPECT_EQ(Nodes(Ranks(2)), "bb");
  EXPECT_EQ(Nodes(Ranks(4)), "aaaa");
}

TEST_F(PlacementOnRacks, OneIslandGoesBeforeOneRackBeforeSeveral) {
  Add("a", 2, {{"rack", "1"}, {"island", "x"}});
  Add("b", 2, {{"rack", "1"}, {"island", "y"}});
  Add("c", 2, {{"rack", "2"}, {"island", "x"}});
  Add("d", 2, {{"rack", "2"}, {"island", "x"}});
  Add("e", 2, {{"rack", "2"}, {"island", "z"}});
  EXPECT_EQ(Nodes(Ranks(4)), "ccdd");
  EXPECT_EQ(Nodes(Ranks(5)), "ccdde") << "in rack 2";
  EXPECT_EQ(Nodes(Ranks(7)), "ccddeea") << "all of rack 2, and one node more";
}

TEST_F(PlacementOnRacks, SmallestRackThatSufficesIsTaken) {
  Add("a", 2, {{"rack", "1"}});
  Add("b", 2, {{"rack", "1"}});
  Add("c", 2, {{"rack", "1"}});
  Add("d", 2, {{"rack", "2"}});
  Add("e", 2, {{"rack", "2"}});
  EXPECT_EQ(Nodes(Ranks(4)), "ddee");
}

TEST_F(PlacementOnRacks, PolicyIsKept) {
  Add("a", 1, {{"kind", "old"}});
  Add("b", 1, {{"kind", "new"}});
  Add("c", 1, {{"kind", "new"}, {"taint.team", "vision"}});
  Add("d", 1, {{"pool", "spare"}});
  JobRequest job = Ranks(1);
  job.placement.labels = {{"kind", "new"}};
  EXPECT_EQ(Nodes(job), "b");
  job.placement.exclude_nodes = {NodeName("b")};
  EXPECT_EQ(Nodes(job), "");
  job.placement.tolerate = {"team"};
  EXPECT_EQ(Nodes(job), "c");
  job.placement.tolerate = {"team=speech"};
  EXPECT_EQ(Nodes(job), "");
  job.placement = {};
  job.placement.nodes = {NodeName("a"), NodeName("gone")};
  EXPECT_EQ(Nodes(job), "a");
  job.placement.nodes = {NodeName("d")};
  EXPECT_EQ(Nodes(job), "") << "a pool of spares takes no ranks";
}

TEST_F(PlacementOnRacks, SameLabelIsSharedByAllRanksAndSpares) {
  Add("a", 3, {{"rack", "1"}});
  Add("b", 2, {{"rack", "2"}});
  Add("c", 2, {{"rack", "2"}});
  Add("d", 4);
  JobRequest job = Ranks(4);
  job.placement.same = "rack";
  EXPECT_EQ(Nodes(job), "bbcc");
  job.ranks = 2;
  job.spares = 3;
  EXPECT_EQ(Nodes(job), "aa|a") << "nothing else is in rack 1";
}

TEST_F(PlacementOnRacks, EachNodeRunsAsManyRanksAsTheJobSays) {
  Add("a", 4, {{"rack", "1"}});
  Add("b", 1, {{"rack", "1"}});
  Add("c", 3, {{"rack", "2"}});
  Add("d", 2, {{"rack", "2"}});
  JobRequest job = Ranks(4);
  EXPECT_EQ(Nodes(job), "aaaa");
  job.placement.ranks_per_node = 2;
  EXPECT_EQ(Nodes(job), "ccdd") << "in one rack; a would hold both, but only one may be there";
  job.placement.ranks_per_node = 1;
  EXPECT_EQ(Nodes(job), "abcd");
  job = Ranks(6);
  job.placement.ranks_per_node = 3;
  EXPECT_EQ(Nodes(job), "aaaccc");
  job.placement.same = "rack";
  EXPECT_EQ(Nodes(job), "") << "one node in each rack has room";
  job = Ranks(4);
  job.placement.ranks_per_node = 2;
  job.placement.same = "rack";
  EXPECT_EQ(Nodes(job), "ccdd");
}

TEST_F(PlacementOnRacks, SparesGoToThePoolThenToOtherRacksThenToOtherNodes) {
  Add("a", 3, {{"rack", "1"}});
  Add("b", 1, {{"rack", "1"}});
  Add("c", 1, {{"rack", "2"}});
  Add("d", 1, {{"rack", "1"}, {"pool", "spare"}});
  JobRequest job = Ranks(2);
  job.placement.nodes = {NodeName("a"), NodeName("b"), NodeName("c"), NodeName("d")};
  job.spares = 9;
  EXPECT_EQ(Nodes(job), "aa|dcba");
}

TEST_F(PlacementOnRacks, ReplacementStaysNearTheRanksAndMayTakeWhatIsKept) {
  Add("a", 1, {{"rack", "1"}});
  Add("b", 1, {{"rack", "1"}});
  Add("c", 5, {{"rack", "2"}});
  Add("d", 1, {{"rack", "2"}, {"pool", "spare"}});
  SlotWish wish;
  wish.ranks = {{NodeName("x"), 0, "1"}};
  EXPECT_EQ(One(Ranks(2), wish), "a");
  wish.avoid = {NodeName("a")};
  EXPECT_EQ(One(Ranks(2), wish), "b");
  nodes_[1].kept = 1;
  EXPECT_EQ(One(Ranks(2), wish), "b");
  wish.avoid.insert(NodeName("b"));
  EXPECT_EQ(One(Ranks(2), wish), "c") << "before the pool";
  wish.avoid.insert(NodeName("c"));
  EXPECT_EQ(One(Ranks(2), wish), "d");
  wish.avoid.insert(NodeName("d"));
  EXPECT_THAT(One(Ranks(2), wish), HasSubstr("no slot is free for a replacement"));
}

TEST_F(PlacementOnRacks, SpareTakesNothingThatIsKept) {
  Add("a", 1);
  nodes_[0].kept = 1;
  SlotWish wish;
  wish.use = SlotWish::Use::kSpare;
  EXPECT_THAT(One(Ranks(1), wish), HasSubstr("no slot is free for a spare"));
}

TEST(PlacementTest, AllRanksOrNone) {
  const Placement placement = PlaceRanks(Ranks(4), {Space("a", 2, 2), Space("b", 2, 1)});
  EXPECT_THAT(placement.slots, IsEmpty());
  EXPECT_THAT(placement.reason, HasSubstr("waits for 4 slots: 3 free now"));
}

TEST(PlacementTest, WaitSaysHowManyNodesHaveRoomForTheirRanks) {
  JobRequest job = Ranks(4);
  job.placement.ranks_per_node = 2;
  const Placement placement =
      PlaceRanks(job, {Space("a", 4, 3), Space("b", 4, 1), Space("c", 4, 1)});
  EXPECT_THAT(placement.slots, IsEmpty());
  EXPECT_EQ(placement.reason, "waits for 4 slots, 2 on each of 2 nodes: 5 free now (2 on 1 node)");
}

TEST(PlacementTest, NodeThatDoesNotAnswerTakesNoRankAndIsNamed) {
  const Placement placement = PlaceRanks(Ranks(2), {Space("a", 2, 2, /*open=*/false)});
  EXPECT_THAT(placement.slots, IsEmpty());
  EXPECT_THAT(placement.reason, HasSubstr("2 on nodes that do not answer"));
}

TEST(PlacementTest, WhatCouldNeverFitIsRefusedWithTheReason) {
  const auto nodes = {Space("a", 2, 0), Space("b", 1, 0, /*open=*/false)};
  EXPECT_TRUE(CanEverFit(Ranks(3), nodes).ok());
  const absl::Status refused = CanEverFit(Ranks(4), nodes);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("needs 4 slots and the 2 nodes have 3"));
  EXPECT_THAT(std::string(CanEverFit(Ranks(1), {}).message()), HasSubstr("no worker"));
  JobRequest bound = Ranks(2);
  bound.placement.nodes = {NodeName("b")};
  EXPECT_THAT(std::string(CanEverFit(bound, nodes).message()),
              HasSubstr("needs 2 slots and its placement allows 1 of 3"));
  JobRequest even = Ranks(2);
  even.placement.ranks_per_node = 1;
  EXPECT_TRUE(CanEverFit(even, nodes).ok());
  even.placement.ranks_per_node = 2;
  EXPECT_TRUE(CanEverFit(even, nodes).ok());
  even.ranks = 4;
  EXPECT_THAT(
      std::string(CanEverFit(even, {Space("a", 3, 0), Space("b", 1, 0)}).message()),
      HasSubstr("needs 2 nodes with 2 slots each and may use 1 of that size: ask for fewer"));
}

TEST_F(PlacementOnRacks, SessionsAreForWorkersThatKnowThem) {
  JobRequest job = Ranks(1);
  job.command = CommandPolicy{};
  job.command->is_session = true;
  job.placement.labels = {{kCommandsLabel, kTakesCommands}, {kSessionsLabel, kTakesSessions}};
  Add("a", 4, {{kCommandsLabel, "off"}, {kSessionsLabel, "off"}});
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()), HasSubstr("label commands=on"));
  Add("b", 4, {{kCommandsLabel, kTakesCommands}});
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()), HasSubstr("label sessions=on"));
  Add("c", 1, {{kCommandsLabel, kTakesCommands}, {kSessionsLabel, kTakesSessions}});
  EXPECT_TRUE(CanEverFit(job, nodes_).ok());
  EXPECT_EQ(Nodes(job), "c");
}

TEST_F(PlacementOnRacks, CompiledModelsAreForWorkersThatTakeCommands) {
  JobRequest job = Ranks(1);
  job.placement.labels = {{kCompiledLabel, kTakesCompiled}};
  Add("a", 4, {{kCommandsLabel, "off"}, {kCompiledLabel, "off"}});
  Add("b", 4, {{kCommandsLabel, kTakesCommands}});  // Of an earlier version.
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()), HasSubstr("label compiled=on"));
  Add("c", 1, {{kCommandsLabel, kTakesCommands}, {kCompiledLabel, kTakesCompiled}});
  EXPECT_TRUE(CanEverFit(job, nodes_).ok());
  EXPECT_EQ(Nodes(job), "c");
}

TEST_F(PlacementOnRacks, ObjectsAreForNodesWhoseOperatorsAllowSome) {
  JobRequest job = Ranks(1);
  job.placement.labels = {{kObjectsLabel, kTakesObjects}};
  Add("a", 4, {{kObjectsLabel, "off"}});
  Add("b", 4);  // Of an earlier version.
  const std::string refused(CanEverFit(job, nodes_).message());
  EXPECT_THAT(refused, HasSubstr("label objects=on"));
  EXPECT_THAT(refused, HasSubstr("--object-store"));
  Add("c", 1, {{kObjectsLabel, kTakesObjects}});
  EXPECT_TRUE(CanEverFit(job, nodes_).ok());
  EXPECT_EQ(Nodes(job), "c");
}

TEST_F(PlacementOnRacks, WhatASpecNeedsIsForWorkersThatKnowIt) {
  JobRequest job = Ranks(4);
  job.placement.needs.Add(2, "sharded models");
  Add("a", 2);
  Add("b", 2, {{"taint.team", "vision"}});
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()), HasSubstr("its placement allows 0"))
      << "an upgrade alone would not do";
  Add("c", 4, {}, 1);
  Add("c-gpu", 0);  // It has no slots, so that an upgrade would not help.
  Add("d", 2, {}, 2);
  EXPECT_EQ(std::string(CanEverFit(job, nodes_).message()),
            "the job needs 4 slots on nodes with a worker of this release, for sharded models, and "
            "a, c have earlier ones: upgrade paceline-worker there");
  EXPECT_EQ(PlaceRanks(job, nodes_).reason,
            "waits for 4 slots: 2 free now, 6 on nodes that need a worker of this release, for "
            "sharded models: upgrade paceline-worker there (a, c)");
  Add("e", 2, {}, 3);
  EXPECT_TRUE(CanEverFit(job, nodes_).ok());
  EXPECT_EQ(Nodes(job), "ddee");
  const SlotWish lost{SlotWish::Use::kRank, PlaceRanks(job, nodes_).slots, {}, {NodeName("d")}};
  EXPECT_EQ(One(job, lost), "e") << "replacements are no exception";
  job.ranks = 2;
  job.spares = 4;
  EXPECT_EQ(Nodes(job), "dd|ee") << "nor are spares";
}

TEST_F(PlacementOnRacks, OfManyWorkersToUpgradeTheFirstAreNamed) {
  JobRequest job = Ranks(1);
  job.placement.needs.Add(1, "outer steps");
  for (const char* name : {"a", "b", "c", "d", "e"}) Add(name, 2);
  const std::string reason =
      "waits for 1 slot: 0 free now, 10 on nodes that need a worker of this release, for outer "
      "steps: upgrade paceline-worker there (a, b, c, d, e)";
  EXPECT_EQ(PlaceRanks(job, nodes_).reason, reason);
  Add("f", 1);
  Add("g", 1);
  EXPECT_THAT(PlaceRanks(job, nodes_).reason, HasSubstr("there (a, b, c, d, e and 2 more)"));
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()),
              HasSubstr("a, b, c, d, e and 2 more"));
}

TEST_F(PlacementOnRacks, AllThatNeedsAnUpgradeIsNamed) {
  JobRequest job = Ranks(2);
  job.placement.needs.Add(1, "weights in bfloat16");
  job.placement.needs.Add(1, "outer steps");
  Add("a", 2);
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()),
              HasSubstr("for outer steps and weights in bfloat16, and a has an earlier one: "
                        "upgrade paceline-worker there"));
  job.placement.labels = {{"kind", "new"}};
  EXPECT_THAT(std::string(CanEverFit(job, nodes_).message()), HasSubstr("its placement allows 0"))
      << "the label is missing, too";
}

}  // namespace
}  // namespace paceline
