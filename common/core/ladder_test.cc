#include "common/core/ladder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

const std::vector<RankHome> kUneven = {{"a", "r1"}, {"a", "r1"}, {"a", "r1"}, {"b", "r1"},
                                       {"c", "r2"}, {"c", "r2"}, {"d", ""},   {"e", ""}};

TEST(LadderGroupsTest, SizeMakesEqualGroups) {
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 2, kUneven), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 8, kUneven), ElementsAre(8));
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 1, kUneven), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(LadderGroupsTest, WhatSizeLeavesIsASmallerGroup) {
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 3, kUneven), ElementsAre(3, 3, 2));
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 16, kUneven), ElementsAre(8));
}

TEST(LadderGroupsTest, NodesMayHoldDifferentNumbersOfRanks) {
  EXPECT_THAT(LadderGroups(LadderScope::kNode, 0, kUneven), ElementsAre(3, 1, 2, 1, 1));
}

TEST(LadderGroupsTest, NodesWithoutARackShareOne) {
  EXPECT_THAT(LadderGroups(LadderScope::kRack, 0, kUneven), ElementsAre(4, 2, 2));
}

TEST(LadderGroupsTest, AllIsOneGroup) {
  EXPECT_THAT(LadderGroups(LadderScope::kAll, 0, kUneven), ElementsAre(8));
}

TEST(HomesOfReplicasTest, OneShardLeavesTheHomesOfTheRanks) {
  const std::vector<RankHome> same = HomesOfReplicas(kUneven, 1);
  ASSERT_EQ(same.size(), kUneven.size());
  for (size_t rank = 0; rank < same.size(); ++rank) {
    EXPECT_EQ(same[rank].node, kUneven[rank].node);
    EXPECT_EQ(same[rank].rack, kUneven[rank].rack);
  }
}

TEST(HomesOfReplicasTest, ReplicaOfSeveralNodesSharesNeitherOfThem) {
  const std::vector<RankHome> homes = HomesOfReplicas(kUneven, 2);
  ASSERT_EQ(homes.size(), 4U);
  EXPECT_EQ(homes[0].node, "a");
  EXPECT_NE(homes[1].node, "a");
  EXPECT_EQ(homes[1].rack, "r1");
  EXPECT_EQ(homes[2].node, "c");
  EXPECT_EQ(homes[3].rack, "");
  EXPECT_THAT(LadderGroups(LadderScope::kNode, 0, homes), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(LadderGroups(LadderScope::kRack, 0, homes), ElementsAre(2, 1, 1));
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 2, homes), ElementsAre(2, 2));
}

TEST(HomesOfReplicasTest, ReplicaOfSeveralRacksIsInNone) {
  const std::vector<RankHome> homes = HomesOfReplicas(
      {{"a", "r1"}, {"b", "r1"}, {"b", "r1"}, {"c", "r2"}, {"c", "r2"}, {"c", "r2"}}, 2);
  EXPECT_THAT(LadderGroups(LadderScope::kRack, 0, homes), ElementsAre(1, 1, 1));
}

TEST(HomesOfReplicasTest, ReplicasOfTheSameNodesAreNotOfOneNode) {
  const std::vector<RankHome> homes =
      HomesOfReplicas({{"a", ""}, {"b", ""}, {"a", ""}, {"b", ""}}, 2);
  EXPECT_THAT(LadderGroups(LadderScope::kNode, 0, homes), ElementsAre(1, 1));
  EXPECT_THAT(LadderGroups(LadderScope::kRack, 0, homes), ElementsAre(2));
}

TEST(LadderGroupsTest, OneRankIsAGroupInEveryScope) {
  const std::vector<RankHome> homes = {{"a", ""}};
  EXPECT_THAT(LadderGroups(LadderScope::kSize, 1, homes), ElementsAre(1));
  EXPECT_THAT(LadderGroups(LadderScope::kNode, 0, homes), ElementsAre(1));
  EXPECT_THAT(LadderGroups(LadderScope::kRack, 0, homes), ElementsAre(1));
  EXPECT_THAT(LadderGroups(LadderScope::kAll, 0, homes), ElementsAre(1));
}

TEST(DescribeLadderTest, AsInALog) {
  EXPECT_EQ(DescribeLadder({}), "synchronous");
  EXPECT_EQ(DescribeLadder({{2, LadderScope::kSize, 8},
                            {4, LadderScope::kNode, 0},
                            {8, LadderScope::kRack, 0},
                            {16, LadderScope::kAll, 0}}),
            "2:8,4:node,8:rack,16:all");
}

}  // namespace
}  // namespace paceline
